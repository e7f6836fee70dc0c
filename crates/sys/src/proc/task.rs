//! What the kernel knows about one thread of this process, read from /proc without privilege.
//!
//! How it works: opening a thread takes a handle on its directory; each file is opened from that
//! handle at its first use and kept, and every further read is one `pread` into a buffer on the
//! stack; where there is no room for another descriptor (`ours::has_room`) it is opened for each
//! read. The handle names this very thread: once it has ended, reads fail with ESRCH, also when its
//! id has been given to another thread.
//!
//! `cpu_ns` needs no file: the clock that POSIX gives each thread.
//!
//! | read | file in /proc/self/task/TID | emits | unit | from | cost |
//! | --- | --- | --- | --- | --- | --- |
//! | `schedstat` | schedstat | on-CPU time, run delay; slices | ns; count | 2.6.23 | 0.6-1.2 us |
//! | `call` | syscall | the call it is blocked in, with arguments | | 2.6.27 | 0.8-2 us |
//! | `wchan` | wchan | kernel function it sleeps in | name | 2.6 | 1.4-2.6 us |
//! | `state` | stat | R, S, D, T, ... | letter | 2.6 | 2.7-2.9 us |
//! | `place` | stat | the CPU it runs on or ran on last; its class | | 2.6.8 | 2.7-2.9 us |
//! | `usage` | stat, io | faults, user and kernel time, storage | us, bytes | 2.6.20 | 4-6 us |
//! | `status_switches` | status | voluntary and forced switches | count | 2.6.23 | 6.6-8.2 us |
//!
//! What it promises: no allocation on a repeated read; text that is not as documented is an error
//! (`InvalidData`), never a panic. What it does not: `run_ns` of a thread that is running now lags
//! by up to one scheduler tick (1-10 ms), since the kernel adds it up at ticks and switches; and
//! names from `wchan` differ between kernels, so key on `call` and take them as a hint.
//!
//! Where it is refused: `syscall` has mode 0400. A process that changed its user id, or is not
//! dumpable for another reason, no longer owns that file and gets EACCES (unless it opened the
//! file before); the others stay readable. In a forked child open everything anew: the handles
//! still describe the threads of the parent.

use crate::kept::{self, Kept};
use crate::ours::{self, Fd};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

/// Time a thread got and did not get, since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Schedstat {
    /// Nanoseconds on a CPU.
    pub run_ns: u64,
    /// Nanoseconds runnable but waiting for a CPU (cgroup throttling included).
    pub run_delay_ns: u64,
    /// How often it was given a CPU.
    pub slices: u64,
}

/// What a thread has used since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Page faults, those that needed no I/O and those that did.
    pub faults: u64,
    /// Time in its own code, us; in steps of the kernel's clock tick (10 ms).
    pub user_us: u64,
    /// Time in the kernel, us; in the same steps.
    pub system_us: u64,
    /// Bytes that it read from and wrote to storage; 0 where the kernel does not count them.
    pub storage_bytes: u64,
}

/// What a thread was doing for the kernel at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskCall {
    /// On a CPU, or runnable and waiting for one; also in the middle of a system call that does
    /// not block. A thread that reads itself sees the call it reads with instead.
    Running,
    /// Blocked outside any system call: a page fault, or stopped by a signal. `state` distinguishes
    /// them: D or S against T.
    InKernel {
        /// User stack pointer.
        sp: u64,
        /// User instruction pointer.
        pc: u64,
    },
    /// Blocked inside a system call.
    Syscall {
        /// Number of the call on this architecture.
        nr: i64,
        /// The six argument registers, whether the call uses them or not.
        args: [u64; 6],
        /// User stack pointer.
        sp: u64,
        /// User instruction pointer, just behind the call instruction.
        pc: u64,
    },
}

/// Where a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuPlace {
    /// The CPU on which it runs, or waits for its turn.
    pub cpu: usize,
    /// It is of a class that does not share a CPU with ordinary threads (FIFO, RR, deadline).
    pub real_time: bool,
}

/// How often a thread gave up its CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// It blocked.
    pub voluntary: u64,
    /// The scheduler took the CPU away.
    pub forced: u64,
}

/// The last id that the kernel gave to a process or thread of this pid namespace. The difference of
/// two of them bounds how many were created in between, as long as ids do not wrap. One open, read
/// and close of a file of /proc, about 5 us. None: it cannot be read.
pub fn last_id() -> Option<u32> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split_ascii_whitespace().nth(4)?.parse().ok()
}

/// CPU time of a thread of this process, ns, exact to this moment: as long as it does not grow the
/// thread had no CPU. Needs no descriptor; one system call, 0.3 us. None: it has ended, or is
/// another process's.
pub fn cpu_ns(tid: u32) -> Option<u64> {
    /// `CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED`, behind the complement of the id, as
    /// `pthread_getcpuclockid` makes them.
    const THREAD_CLOCK: libc::clockid_t = 4 | 2;
    // 0 would be the caller; ids end at 2^22, and larger ones would not fit.
    if tid == 0 || tid >= 1 << 22 {
        return None;
    }
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let clock = !(tid as libc::clockid_t) << 3 | THREAD_CLOCK;
    // SAFETY: `ts` is a valid timespec we own; a clock that the kernel does not know is an error.
    let is_known = unsafe { libc::clock_gettime(clock, &mut ts) } == 0;
    is_known.then(|| ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64)
}

/// Puts the ids of all threads of this process into `out`, in ascending order, replacing what was
/// there. Allocates only when `out` has to grow. Threads that start or end meanwhile may be missed.
pub fn list(out: &mut Vec<u32>) -> io::Result<()> {
    out.clear();
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: the path is a literal that ends with NUL.
    let dir = kept::owned(unsafe { libc::open(c"/proc/self/task".as_ptr(), flags) })?;
    let found = entries(&dir, |name| {
        if let Ok(Ok(tid)) = kept::decimal(name).map(u32::try_from) {
            out.push(tid);
        }
    });
    out.sort_unstable();
    found
}

/// Calls `each` with the name of every entry of an open directory, from its current position.
pub(crate) fn entries(dir: &Fd, mut each: impl FnMut(&[u8])) -> io::Result<()> {
    /// struct linux_dirent64: inode, offset, record length at byte 16, type, name from byte 19.
    const LENGTH_AT: usize = 16;
    const NAME_AT: usize = 19;
    let mut buf = [0u64; 1024];
    loop {
        let (fd, size) = (dir.as_raw_fd(), size_of_val(&buf));
        // SAFETY: `buf` is `size` writable bytes, aligned to 8 as the kernel's records are.
        let n = unsafe { libc::syscall(libc::SYS_getdents64, fd, buf.as_mut_ptr(), size) };
        if n <= 0 {
            return match n {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            };
        }
        // SAFETY: u64 has no padding, and the kernel wrote n <= size bytes at the start of `buf`.
        let bytes = unsafe { std::slice::from_raw_parts(buf.as_ptr().cast::<u8>(), n as usize) };
        let mut rest = bytes;
        while let Some(length) = rest.get(LENGTH_AT..LENGTH_AT + 2) {
            let length = usize::from(u16::from_ne_bytes([length[0], length[1]]));
            let name = rest.get(NAME_AT..length).ok_or_else(kept::odd)?;
            each(name.split(|b| *b == 0).next().unwrap_or_default());
            rest = &rest[length..];
        }
    }
}

/// The name of a thread, at most 15 bytes. Allocates; meant for once a thread.
pub fn comm(tid: u32) -> io::Result<String> {
    let file = Kept::open(&format!("/proc/self/task/{tid}/comm"))?;
    let mut buf = [0u8; 64];
    let name = file.read(&mut buf)?;
    Ok(String::from_utf8_lossy(name.trim_ascii_end()).into_owned())
}

/// One file of a thread: opened at its first use, and kept while there is room for that; not tried
/// again once it was forbidden.
enum Slot {
    Unopened,
    Open(Kept),
    Forbidden(i32),
}

impl Slot {
    fn read<'b>(&mut self, dir: &Fd, name: &CStr, buf: &'b mut [u8]) -> io::Result<&'b [u8]> {
        if let Slot::Unopened = self {
            let keep = ours::has_room(1);
            match Kept::open_at(dir.as_fd(), name) {
                Ok(file) if keep => *self = Slot::Open(file),
                Ok(file) => {
                    ours::count_refused();
                    return file.read(buf);
                }
                Err(e) => {
                    if let Some(errno @ (libc::EACCES | libc::EPERM)) = e.raw_os_error() {
                        *self = Slot::Forbidden(errno);
                    }
                    return Err(e);
                }
            }
        }
        match self {
            Slot::Open(file) => file.read(buf),
            Slot::Forbidden(errno) => Err(io::Error::from_raw_os_error(*errno)),
            Slot::Unopened => Err(kept::odd()),
        }
    }
}

/// Reads one thread, of this process or another. Holds one descriptor, and one more for each kind
/// of read that has been used.
pub struct TaskReader {
    tid: u32,
    dir: Fd,
    schedstat: Slot,
    syscall: Slot,
    wchan: Slot,
    stat: Slot,
    status: Slot,
    io: Slot,
    name: [u8; 128],
}

/// Whether this result of a reader means that its thread has ended. Files that a kernel does not
/// have or refuses mean nothing.
pub fn has_ended<T>(answer: &io::Result<T>) -> bool {
    answer.as_ref().err().and_then(io::Error::raw_os_error) == Some(libc::ESRCH)
}

impl TaskReader {
    /// Takes a handle on thread `tid`. Errors: ENOENT when this process has no such thread.
    pub fn open(tid: u32) -> io::Result<TaskReader> {
        TaskReader::open_in(Path::new("/proc/self"), tid)
    }

    /// The same for a thread of the process whose folder in /proc this is. Its system calls are
    /// shown to those only who may trace it.
    pub fn open_in(process: &Path, tid: u32) -> io::Result<TaskReader> {
        Ok(TaskReader {
            tid,
            dir: kept::open_dir(&process.join(format!("task/{tid}")).to_string_lossy())?,
            schedstat: Slot::Unopened,
            syscall: Slot::Unopened,
            wchan: Slot::Unopened,
            stat: Slot::Unopened,
            status: Slot::Unopened,
            io: Slot::Unopened,
            name: [0; 128],
        })
    }

    /// The thread this reads.
    pub fn tid(&self) -> u32 {
        self.tid
    }

    /// Descriptors held.
    pub fn descriptors(&self) -> usize {
        let slots =
            [&self.schedstat, &self.syscall, &self.wchan, &self.stat, &self.status, &self.io];
        1 + slots.iter().filter(|slot| matches!(slot, Slot::Open(_))).count()
    }

    /// On-CPU time and run delay. Errors: ESRCH once the thread has ended.
    pub fn schedstat(&mut self) -> io::Result<Schedstat> {
        let mut buf = [0u8; 96];
        parse_schedstat(self.schedstat.read(&self.dir, c"schedstat", &mut buf)?)
    }

    /// What it is blocked in. Errors: ESRCH once the thread has ended; EACCES as described above.
    pub fn call(&mut self) -> io::Result<TaskCall> {
        let mut buf = [0u8; 256];
        parse_call(self.syscall.read(&self.dir, c"syscall", &mut buf)?)
    }

    /// The kernel function it sleeps in; "0" when it does not sleep or the kernel will not say.
    pub fn wchan(&mut self) -> io::Result<&str> {
        let name = self.wchan.read(&self.dir, c"wchan", &mut self.name)?;
        std::str::from_utf8(name.trim_ascii_end()).map_err(|_| kept::odd())
    }

    /// Its state as the kernel's letter: R running or runnable, S sleeping, D uninterruptible, T
    /// stopped, t traced, Z ended.
    pub fn state(&mut self) -> io::Result<char> {
        let mut buf = [0u8; 128];
        parse_state(self.stat.read(&self.dir, c"stat", &mut buf)?)
    }

    /// The CPU that it runs on, or on which it waits for its turn.
    pub fn place(&mut self) -> io::Result<CpuPlace> {
        let mut buf = [0u8; 512];
        parse_place(self.stat.read(&self.dir, c"stat", &mut buf)?)
    }

    /// Its page faults, CPU time by kind, and storage traffic. Errors: ESRCH once it has ended.
    pub fn usage(&mut self) -> io::Result<Usage> {
        let mut buf = [0u8; 512];
        let mut usage = parse_usage(self.stat.read(&self.dir, c"stat", &mut buf)?)?;
        if let Ok(text) = self.io.read(&self.dir, c"io", &mut buf) {
            let bytes = |key| kept::value_of(text, key).unwrap_or(0);
            usage.storage_bytes = bytes("read_bytes").saturating_add(bytes("write_bytes"));
        }
        Ok(usage)
    }

    /// How often it blocked and was preempted. The most expensive read here: the kernel formats 50
    /// lines.
    pub fn status_switches(&mut self) -> io::Result<Switches> {
        let mut buf = [0u8; 4096];
        parse_switches(self.status.read(&self.dir, c"status", &mut buf)?)
    }
}

fn parse_schedstat(text: &[u8]) -> io::Result<Schedstat> {
    let mut numbers = kept::words(text).map(kept::decimal);
    let mut next = || numbers.next().unwrap_or_else(|| Err(kept::odd()));
    Ok(Schedstat { run_ns: next()?, run_delay_ns: next()?, slices: next()? })
}

fn parse_call(text: &[u8]) -> io::Result<TaskCall> {
    let mut words = kept::words(text);
    let nr = match words.next().ok_or_else(kept::odd)? {
        b"running" => return Ok(TaskCall::Running),
        b"-1" => None,
        nr => Some(i64::try_from(kept::decimal(nr)?).map_err(|_| kept::odd())?),
    };
    let mut next = || words.next().ok_or_else(kept::odd).and_then(kept::hex);
    let Some(nr) = nr else {
        let (sp, pc) = (next()?, next()?);
        return Ok(TaskCall::InKernel { sp, pc });
    };
    let mut args = [0u64; 6];
    for arg in &mut args {
        *arg = next()?;
    }
    let (sp, pc) = (next()?, next()?);
    Ok(TaskCall::Syscall { nr, args, sp, pc })
}

fn parse_state(text: &[u8]) -> io::Result<char> {
    // "TID (name) S ...": the name may hold spaces and brackets, so count from the last one.
    let end = text.iter().rposition(|b| *b == b')').ok_or_else(kept::odd)?;
    match text.get(end + 1..end + 4) {
        Some([b' ', letter, b' ']) if letter.is_ascii_alphabetic() => Ok(char::from(*letter)),
        _ => Err(kept::odd()),
    }
}

fn parse_usage(text: &[u8]) -> io::Result<Usage> {
    let end = text.iter().rposition(|b| *b == b')').ok_or_else(kept::odd)?;
    // Behind the name: state, and from the 8th on minflt, cminflt, majflt, cmajflt, utime, stime.
    let mut numbers = kept::words(&text[end + 1..]).skip(7).map(kept::decimal);
    let mut next = || numbers.next().unwrap_or_else(|| Err(kept::odd()));
    let (minor, _, major, _) = (next()?, next()?, next()?, next()?);
    // The unit of these files is USER_HZ, 100 on every architecture in use.
    const TICK_US: u64 = 10_000;
    let mut time = || next().map(|ticks| ticks.saturating_mul(TICK_US));
    let (user_us, system_us) = (time()?, time()?);
    Ok(Usage { faults: minor.saturating_add(major), user_us, system_us, storage_bytes: 0 })
}

fn parse_place(text: &[u8]) -> io::Result<CpuPlace> {
    let end = text.iter().rposition(|b| *b == b')').ok_or_else(kept::odd)?;
    // Behind the name: the CPU is the 37th word, then the priority among real-time threads, the
    // class. sched(7): 1 is FIFO, 2 RR, 6 deadline.
    let mut numbers = kept::words(&text[end + 1..]).skip(36).map(kept::decimal);
    let mut next = || numbers.next().unwrap_or_else(|| Err(kept::odd()));
    let (cpu, _, class) = (next()?, next()?, next()?);
    let cpu = usize::try_from(cpu).map_err(|_| kept::odd())?;
    Ok(CpuPlace { cpu, real_time: matches!(class, 1 | 2 | 6) })
}

fn parse_switches(text: &[u8]) -> io::Result<Switches> {
    let value = |key| kept::value_of(text, key).ok_or_else(kept::odd);
    Ok(Switches {
        voluntary: value("voluntary_ctxt_switches")?,
        forced: value("nonvoluntary_ctxt_switches")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_forms_of_a_call_are_distinguished() {
        assert_eq!(parse_call(b"running\n").ok(), Some(TaskCall::Running));
        let fault = TaskCall::InKernel { sp: 0x7f, pc: 0x40 };
        assert_eq!(parse_call(b"-1 0x7f 0x40\n").ok(), Some(fault));
        let futex = TaskCall::Syscall {
            nr: 202,
            args: [0x10, 0x80, 2, 0, 0, u64::MAX],
            sp: 0x7ffc,
            pc: 0x401000,
        };
        let text = b"202 0x10 0x80 0x2 0x0 0x0 0xffffffffffffffff 0x7ffc 0x401000\n";
        assert_eq!(parse_call(text).ok(), Some(futex));
    }

    #[test]
    fn garbage_is_an_error_and_not_a_panic() {
        let lines: [&[u8]; 9] = [
            b"",
            b"\n",
            b"-1",
            b"-2 0x1 0x2",
            b"202 0x10",
            b"202 10 0x0 0x0 0x0 0x0 0x0 0x0 0x0",
            b"99999999999999999999 0x0 0x0 0x0 0x0 0x0 0x0 0x0 0x0",
            b"\xff\xff\xff",
            b"runningx",
        ];
        for line in lines {
            assert!(parse_call(line).is_err(), "{line:?}");
            assert!(parse_schedstat(line).is_err(), "{line:?}");
            assert!(parse_state(line).is_err(), "{line:?}");
            assert!(parse_switches(line).is_err(), "{line:?}");
            assert!(parse_usage(line).is_err(), "{line:?}");
            assert!(parse_place(line).is_err(), "{line:?}");
        }
        assert!(parse_state(b"1 (a) b) R").is_err());
        assert_eq!(parse_state(b"1 (a) S b) R 2").ok(), Some('R'));
        let stat = b"7 (a) b) R 1 7 7 0 -1 4194304 500 0 3 0 12 34 0 0 20";
        let usage = Usage { faults: 503, user_us: 120_000, system_us: 340_000, storage_bytes: 0 };
        assert_eq!(parse_usage(stat).ok(), Some(usage));
        let text = |class: &str| format!("7 (a) b) R{} 3 0 {class} 0", " 1".repeat(35));
        let place = |class| parse_place(text(class).as_bytes()).ok();
        assert_eq!(place("0"), Some(CpuPlace { cpu: 3, real_time: false }));
        assert_eq!(place("1"), Some(CpuPlace { cpu: 3, real_time: true }));
    }

    #[test]
    fn every_prefix_of_a_good_line_is_parsed_or_refused() {
        let text = b"202 0x10 0x80 0x2 0x0 0x0 0xffff 0x7ffc 0x401000\n";
        for cut in 0..text.len() {
            let _ = parse_call(&text[..cut]);
            let _ = parse_schedstat(&text[..cut]);
            let _ = parse_state(&text[..cut]);
        }
    }
}
