//! Once-a-second counters of this process and its host.
//!
//! How it works: every file is opened once and read again with one `pread`; the rest are plain
//! calls. Each read hands every value, with its name, to the caller.
//!
//! | reads | emits | unit | from |
//! | --- | --- | --- | --- |
//! | getrusage | `minor_faults`, `major_faults` | count | 2.6 |
//! | same | `voluntary_switches`, `involuntary_switches` | count | 2.6 |
//! | CLOCK_PROCESS_CPUTIME_ID | `process_cpu_ns` | ns | 2.6.12 |
//! | /proc/self/statm | `rss_bytes` | bytes | 2.6 |
//! | links of /proc/self/task | `threads` | count now | 2.6 |
//! | size of /proc/self/fd (before 6.2 its entries, counted) | `fds` | count now | 2.6 |
//! | fstat of each descriptor below `MOST_ASKED` | `sockets` | count now | 2.6 |
//! | /proc/self/net/sockstat | `namespace_sockets` | count now | 2.6 |
//! | cpu.stat of the cgroup (v2, v1) | `cgroup_periods`, `cgroup_throttled_periods` | count | 3.2 |
//! | same | `cgroup_throttled_ns` | ns | 3.2 |
//! | cpu, io, memory.pressure (v2) | `psi_cgroup_cpu_some_avg10_percent`, ... | % | 4.20 |
//! | same | `psi_cgroup_cpu_some_total_us`, ... | us | 4.20 |
//! | /proc/pressure/cpu, io, memory | `psi_cpu_some_avg10_percent`, ... | % | 4.20 |
//! | same | `psi_cpu_some_total_us`, ... | us | 4.20 |
//! | /proc/stat | `host_steal_ticks` | ticks of 10 ms, all CPUs | 2.6.11 |
//!
//! What it promises: counters count up from the start of the process (pressure and steal: of the
//! host or the cgroup) and are emitted raw; the caller computes differences. Values that this host
//! does not have are not emitted, and `missing()` says which and why. No allocation on a repeated
//! read unless a source fails, which is noted once, or there is no room to keep the files open.
//! About 20 us a read, and 0.4 us a descriptor of the host.
//!
//! What it does not: `fds` are those of the process, including the recorder's. `sockets` exclude
//! the recorder's, unless they have low numbers, and are missing for a process with descriptors of
//! its own beyond `MOST_ASKED`. `namespace_sockets` are those of all processes of its network
//! namespace (a container's, or the host's), and of the kernel: for programs with more descriptors
//! than are checked. `psi_cpu_...` and steal are those of the whole host, also inside a container;
//! the service's own are `psi_cgroup_...`. The cgroup is searched again when the process was moved;
//! a quota set later above it is not noticed. In a forked child open it anew.

mod cgroup;

/// CPUs that the calling thread may use: by its affinity, and by the quota of its cgroup. Some
/// reads of files, 0.2 ms.
pub fn cpus() -> f64 {
    let by_affinity = crate::off_cpu::cpus_allowed().unwrap_or(1) as f64;
    cgroup::quota().map_or(by_affinity, |quota| quota.min(by_affinity))
}

use crate::kept::{self, Kept};
use crate::ours::{self, Fd};
use crate::{clock, fds, task};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::AsRawFd;

/// The sources that `follow_cgroup` replaces.
const CGROUP: &str = "cgroup throttling";
const CGROUP_PRESSURE: &str = "pressure of the cgroup";
/// The source that exists up to `MOST_ASKED` descriptors.
const SOCKETS: &str = "sockets";
/// This many descriptors are checked for being sockets: those with numbers below ours.
const MOST_ASKED: i32 = ours::HIGH_FD;

/// Files are kept open while there is room for this many more descriptors of ours: these files are
/// read once a second, others a hundred times.
const LEFT_FOR_OTHERS: usize = 64;

/// Takes a value: its name, with the unit at the end unless it is a count, and the value.
type Emit<'a> = &'a mut dyn FnMut(&'static str, f64);

/// A value this host does not give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// What could not be read.
    pub source: &'static str,
    /// Why it cannot be.
    pub reason: String,
}

/// A file and how to read it; the function returns None when the text is not as expected.
struct Source {
    name: &'static str,
    path: String,
    /// None: opened for each read.
    file: Option<Kept>,
    emit: fn(&[u8], Emit<'_>) -> Option<()>,
    failed: bool,
}

impl Source {
    fn read<'b>(&self, buf: &'b mut [u8]) -> io::Result<&'b [u8]> {
        match &self.file {
            Some(file) => file.read(buf),
            None => Kept::open(&self.path)?.read(buf),
        }
    }
}

/// Reads the counters. Holds about a dozen descriptors, or three where there is no room for them.
pub struct Vitals {
    sources: Vec<Source>,
    task_dir: Option<Fd>,
    fd_dir: Option<Fd>,
    missing: Vec<Missing>,
    /// /proc/self/cgroup, and a hash of what it said last.
    membership: Option<Kept>,
    member_of: Option<u64>,
}

impl Vitals {
    /// Closes what can be opened for each read.
    pub fn give_back(&mut self) {
        let kept = self.sources.iter_mut().filter_map(|source| source.file.take()).count();
        ours::count_given_back(kept);
    }

    /// Descriptors open in the host's table, including ours there. None: the kernel does not have
    /// it, or it cannot be read.
    pub fn open_descriptors(&self) -> Option<u64> {
        self.fd_dir.as_ref().and_then(count_fds)
    }

    /// Opens everything that can be opened. Never fails: see `missing`.
    pub fn open() -> Vitals {
        let mut vitals = Vitals {
            sources: Vec::new(),
            task_dir: None,
            fd_dir: None,
            missing: Vec::new(),
            membership: Kept::open("/proc/self/cgroup").ok(),
            member_of: None,
        };
        vitals.add("rss", "/proc/self/statm", emit_memory);
        vitals.add("pressure of cpu", "/proc/pressure/cpu", |text, emit| {
            emit_pressure(text, emit, ["psi_cpu_some_avg10_percent", "psi_cpu_some_total_us"])
        });
        vitals.add("pressure of io", "/proc/pressure/io", |text, emit| {
            emit_pressure(text, emit, ["psi_io_some_avg10_percent", "psi_io_some_total_us"])
        });
        vitals.add("pressure of memory", "/proc/pressure/memory", |text, emit| {
            let names = ["psi_memory_some_avg10_percent", "psi_memory_some_total_us"];
            emit_pressure(text, emit, names)
        });
        vitals.add("steal", "/proc/stat", emit_steal);
        let all_sockets = "sockets of the network namespace";
        vitals.add(all_sockets, "/proc/self/net/sockstat", emit_sockets);
        vitals.add_cgroup();
        vitals.task_dir = vitals.dir("threads", "/proc/self/task");
        vitals.fd_dir = vitals.dir("fds", "/proc/self/fd");
        vitals
    }

    /// Reads everything once and hands each value to `each`.
    pub fn read(&mut self, mut each: impl FnMut(&'static str, f64)) {
        self.follow_cgroup();
        emit_usage(&mut each);
        each("process_cpu_ns", clock::process_cpu_ns() as f64);
        if let Some(links) = self.task_dir.as_ref().and_then(links) {
            // Two links are the directory's own.
            each("threads", links - 2.0);
        }
        if let Some(fds) = self.fd_dir.as_ref().and_then(count_fds) {
            each("fds", fds as f64);
            self.read_sockets(fds, &mut each);
        }
        for source in &mut self.sources {
            let mut buf = [0u8; 1024];
            let read = source
                .read(&mut buf)
                .and_then(|text| (source.emit)(text, &mut each).ok_or_else(kept::odd));
            if let (Err(e), false) = (read, source.failed) {
                source.failed = true;
                self.missing.push(Missing::new(source.name, &e));
            }
        }
    }

    /// `fds`: how many descriptors are open.
    fn read_sockets(&mut self, fds: u64, emit: Emit<'_>) {
        let noted = self.missing.iter().position(|missing| missing.source == SOCKETS);
        if let Some(sockets) = self.fd_dir.as_ref().and_then(|dir| count_sockets(dir, fds)) {
            emit("sockets", sockets as f64);
            noted.map(|i| self.missing.swap_remove(i));
        } else if noted.is_none() {
            let reason = format!("there are descriptors beyond the first {MOST_ASKED}");
            self.missing.push(Missing { source: SOCKETS, reason });
        }
    }

    /// What this host does not give, and why.
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    fn add(&mut self, name: &'static str, path: &str, emit: fn(&[u8], Emit<'_>) -> Option<()>) {
        let keep = ours::has_room(LEFT_FOR_OTHERS);
        match Kept::open(path) {
            Ok(file) => {
                let file = keep.then_some(file);
                self.sources.push(Source {
                    name,
                    path: path.to_owned(),
                    file,
                    emit,
                    failed: false,
                });
            }
            Err(e) => self.missing.push(Missing::new(name, &e)),
        }
    }

    fn add_cgroup(&mut self) {
        match cgroup::find() {
            Ok(path) => self.add(CGROUP, &path, emit_throttling),
            Err(reason) => self.missing.push(Missing { source: CGROUP, reason: reason.to_owned() }),
        }
        match cgroup::with_pressure() {
            Ok(folder) => self.add_cgroup_pressure(&folder),
            Err(reason) => {
                let reason = reason.to_owned();
                self.missing.push(Missing { source: CGROUP_PRESSURE, reason });
            }
        }
    }

    fn add_cgroup_pressure(&mut self, folder: &str) {
        self.add(CGROUP_PRESSURE, &format!("{folder}/cpu.pressure"), |text, emit| {
            let names = ["psi_cgroup_cpu_some_avg10_percent", "psi_cgroup_cpu_some_total_us"];
            emit_pressure(text, emit, names)
        });
        self.add(CGROUP_PRESSURE, &format!("{folder}/io.pressure"), |text, emit| {
            let names = ["psi_cgroup_io_some_avg10_percent", "psi_cgroup_io_some_total_us"];
            emit_pressure(text, emit, names)
        });
        self.add(CGROUP_PRESSURE, &format!("{folder}/memory.pressure"), |text, emit| {
            let names = ["psi_cgroup_memory_some_avg10_percent", "psi_cgroup_memory_some_total_us"];
            emit_pressure(text, emit, names)
        });
    }

    /// The process may have been moved to another cgroup since.
    fn follow_cgroup(&mut self) {
        let mut buf = [0u8; 1024];
        let Some(Ok(text)) = self.membership.as_ref().map(|file| file.read(&mut buf)) else {
            return;
        };
        let now = hash(text);
        if self.member_of.replace(now).is_some_and(|before| before != now) {
            let of_cgroup = |name| matches!(name, CGROUP | CGROUP_PRESSURE);
            self.sources.retain(|source| !of_cgroup(source.name));
            self.missing.retain(|missing| !of_cgroup(missing.source));
            self.add_cgroup();
        }
    }

    fn dir(&mut self, name: &'static str, path: &str) -> Option<Fd> {
        let dir = std::fs::File::open(path).map(Fd::from);
        dir.map_err(|e| self.missing.push(Missing::new(name, &e))).ok()
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.source, self.reason)
    }
}

impl Missing {
    /// All of them in one line; "" when nothing is missing.
    pub fn line(all: &[Missing]) -> String {
        all.iter().map(Missing::to_string).collect::<Vec<_>>().join(", ")
    }

    fn new(source: &'static str, error: &io::Error) -> Missing {
        Missing { source, reason: error.to_string() }
    }
}

fn hash(text: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

fn emit_usage(emit: Emit<'_>) {
    // SAFETY: an all-zero rusage is a valid value, and getrusage only writes into it; it cannot
    // fail for RUSAGE_SELF.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    emit("minor_faults", usage.ru_minflt as f64);
    emit("major_faults", usage.ru_majflt as f64);
    emit("voluntary_switches", usage.ru_nvcsw as f64);
    emit("involuntary_switches", usage.ru_nivcsw as f64);
}

/// "size resident shared ..." in pages.
fn emit_memory(text: &[u8], emit: Emit<'_>) -> Option<()> {
    let pages = kept::decimal(kept::words(text).nth(1)?).ok()?;
    // SAFETY: sysconf reads a constant of the system.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    emit("rss_bytes", pages as f64 * page_bytes as f64);
    Some(())
}

/// "some avg10=0.08 avg60=0.35 avg300=0.17 total=5750960".
fn emit_pressure(text: &[u8], emit: Emit<'_>, names: [&'static str; 2]) -> Option<()> {
    let line = text.split(|b| *b == b'\n').find(|l| l.starts_with(b"some "))?;
    for (name, key) in names.into_iter().zip(["avg10=", "total="]) {
        let value = kept::words(line).find_map(|word| word.strip_prefix(key.as_bytes()))?;
        emit(name, std::str::from_utf8(value).ok()?.parse().ok()?);
    }
    Some(())
}

/// "cpu user nice system idle iowait irq softirq steal ...".
fn emit_steal(text: &[u8], emit: Emit<'_>) -> Option<()> {
    let mut words = kept::words(text);
    let all = words.next()? == b"cpu";
    let steal = kept::decimal(words.nth(7)?).ok()?;
    all.then(|| emit("host_steal_ticks", steal as f64))
}

/// "sockets: used 77", and lines for each protocol.
fn emit_sockets(text: &[u8], emit: Emit<'_>) -> Option<()> {
    let line = text.split(|b| *b == b'\n').find_map(|l| l.strip_prefix(b"sockets: used "))?;
    emit("namespace_sockets", kept::decimal(line).ok()? as f64);
    Some(())
}

/// cpu.stat; the time is `throttled_usec` in v2 and `throttled_time`, in ns, in v1.
fn emit_throttling(text: &[u8], emit: Emit<'_>) -> Option<()> {
    let micros = kept::value_of(text, "throttled_usec").map(|us| us as f64 * 1e3);
    let nanos = kept::value_of(text, "throttled_time").map(|ns| ns as f64);
    let throttled_ns = micros.or(nanos)?;
    emit("cgroup_periods", kept::value_of(text, "nr_periods")? as f64);
    emit("cgroup_throttled_periods", kept::value_of(text, "nr_throttled")? as f64);
    emit("cgroup_throttled_ns", throttled_ns);
    Some(())
}

fn stat(dir: &Fd) -> Option<libc::stat> {
    // SAFETY: an all-zero stat is a valid value, and fstat only writes into it.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        (libc::fstat(dir.as_raw_fd(), &mut stat) == 0).then_some(stat)
    }
}

fn links(dir: &Fd) -> Option<f64> {
    stat(dir).map(|stat| stat.st_nlink as f64)
}

/// From 6.2 on the directory's size is the number of open descriptors. Before it is zero, and the
/// entries have to be counted: 0.1 us each.
fn count_fds(dir: &Fd) -> Option<u64> {
    if let Some(size @ 1..) = stat(dir).and_then(|stat| u64::try_from(stat.st_size).ok()) {
        return Some(size);
    }
    let mut count = 0u64;
    each_fd(dir, |_| count += 1)?;
    Some(count)
}

/// Calls `each` with the numbers in a folder of descriptors. None: it cannot be read.
fn each_fd(dir: &Fd, mut each: impl FnMut(i32)) -> Option<()> {
    // SAFETY: sets the position of a directory of ours back to its start.
    unsafe { libc::lseek(dir.as_raw_fd(), 0, libc::SEEK_SET) };
    let number = |name: &[u8]| kept::decimal(name).ok().and_then(|fd| i32::try_from(fd).ok());
    task::entries(dir, |name| number(name).into_iter().for_each(&mut each)).ok()
}

/// How many of the host's descriptors are sockets. `all`: how many are open, ours too. None: too
/// many to check. The folder is listed for their numbers: where these have gaps, a number that is
/// not there would cost as much as one that is.
fn count_sockets(dir: &Fd, all: u64) -> Option<u64> {
    let expected = all.saturating_sub(ours::count_high() as u64);
    let (mut seen, mut sockets) = (0, 0);
    if expected <= MOST_ASKED as u64 {
        each_fd(dir, |fd| {
            if fd >= MOST_ASKED || seen >= expected {
                return;
            }
            if let Some(sort) = fds::sort(fd) {
                seen += 1;
                sockets += u64::from(sort == fds::Sort::Socket);
            }
        })?;
    }
    // Some may have been closed since they were counted.
    (expected - seen <= 8 + expected / 16).then_some(sockets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn emitted(text: &str, parse: fn(&[u8], Emit<'_>) -> Option<()>) -> Vec<String> {
        let mut out = Vec::new();
        parse(text.as_bytes(), &mut |name, value| out.push(format!("{name}={value}")));
        out
    }

    #[test]
    fn both_versions_of_cgroups_give_the_same_names_and_units() {
        let names = ["cgroup_periods=10", "cgroup_throttled_periods=3", "cgroup_throttled_ns=5000"];
        let v1 = "nr_periods 10\nnr_throttled 3\nthrottled_time 5000\n";
        let v2 = "usage_usec 9\nnr_periods 10\nnr_throttled 3\nthrottled_usec 5\nnr_bursts 0\n";
        assert_eq!(emitted(v1, emit_throttling), names);
        assert_eq!(emitted(v2, emit_throttling), names);
        assert!(emitted("usage_usec 9\n", emit_throttling).is_empty());
    }

    #[test]
    fn garbage_emits_nothing() {
        for text in ["", "\n", "some", "some avg10=x total=y", "cpu", "1", "a b c d e f g h i"] {
            assert!(emitted(text, emit_throttling).is_empty(), "{text:?}");
            assert!(emitted(text, emit_memory).is_empty(), "{text:?}");
            assert!(emitted(text, emit_steal).is_empty(), "{text:?}");
            assert!(emitted(text, emit_sockets).is_empty(), "{text:?}");
        }
    }
}
