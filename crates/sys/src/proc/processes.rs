//! Other processes that a thread waits for: their names, the one with a pipe's other end, and the
//! child behind a pidfd.
//!
//! | reads | emits | from |
//! | --- | --- | --- |
//! | /proc/PID/comm, cmdline | name; of an interpreter the script, too | hidden by hidepid |
//! | /proc/self/task/TID/children | processes a thread started | 3.5, with CONFIG_PROC_CHILDREN |
//! | /proc/PID/fd/* (links) | process with a pipe's other end | processes of the same user |
//! | /proc/self/fdinfo/N, /proc/PID/stat | child behind a pidfd | 5.3 |
//! | /proc/PID/stat | when a process began | hidden by hidepid |
//!
//! What it promises: only files of /proc are read, so nothing waits for a disk or a server; at most
//! `MOST_CHILDREN` processes with `MOST_FDS` descriptors each are searched, once in `KEPT` for one
//! pipe: some 2 us a descriptor. What it does not: other processes than the calling thread's
//! children, those of the first thread, and the parent; and an answer that still holds when it is
//! returned.

use std::cell::RefCell;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

/// Of a list of children, and of a command line, at most.
const MOST_BYTES: u64 = 4096;
/// Children that are searched for a pipe's other end.
const MOST_CHILDREN: usize = 8;
/// Descriptors of each that are read.
const MOST_FDS: usize = 64;
/// How long a name is reused, and for how many processes.
const SAME: Duration = Duration::from_millis(100);
const MOST_NAMES: usize = 16;
/// How long the result for a pipe is reused.
const KEPT: Duration = Duration::from_secs(1);
/// Pipes whose result is kept.
const MOST_PIPES: usize = 16;

/// The name of a process: `spooler`, `python sorter.py`; "" where it is hidden. Reused for `SAME`:
/// a child has its parent's name until it has become another program.
pub fn name(pid: u32) -> String {
    thread_local! {
        static NAMES: RefCell<Vec<(u32, Instant, String)>> = const { RefCell::new(Vec::new()) };
    }
    NAMES.with_borrow_mut(|names| {
        names.retain(|(_, at, _)| at.elapsed() < SAME);
        if let Some((.., name)) = names.iter().find(|(known, ..)| *known == pid) {
            return name.clone();
        }
        let name = read_name(pid);
        names.truncate(MOST_NAMES - 1);
        names.push((pid, Instant::now(), name.clone()));
        name
    })
}

/// When a process began, by the clock of the day, rounded down to 10 ms. None: there is none of
/// that number, or it is hidden. It holds over an exec.
pub fn began_epoch_ns(pid: u32) -> Option<u64> {
    let stat = String::from_utf8_lossy(&first_bytes(&format!("/proc/{pid}/stat"))).into_owned();
    // The name is in parentheses and may hold any character; field 22 is the 20th behind it.
    let ticks: u64 = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
    // SAFETY: it reads a number.
    let a_second = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).ok()?;
    let began_ns = ticks.saturating_mul(1_000_000_000) / a_second.max(1);
    let age_ns = crate::clock::since_boot_ns().saturating_sub(began_ns);
    Some(crate::clock::epoch_ns().saturating_sub(age_ns))
}

fn read_name(pid: u32) -> String {
    let read = |what| first_bytes(&format!("/proc/{pid}/{what}"));
    let comm = text(&read("comm"));
    // The words are in the process's memory: they are read only where they are needed.
    match is_interpreter(&comm) {
        true => name_of(&comm, &read("cmdline")),
        false => comm,
    }
}

/// A pipe by its name in /proc, when it was searched for, and the process with its other end.
type Found = (String, Instant, Option<(Kin, u32)>);

/// What another process is to this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kin {
    /// It was started by this process.
    Child,
    /// It started this process.
    Parent,
}

/// The process that has the other end of the pipe behind `fd`, and reads it if this one `writes`.
/// `tid`: the thread that waits, whose children are searched first. None: not found. Cost: see
/// above.
pub fn other_end(fd: i32, tid: u32, writes: bool) -> Option<(Kin, u32)> {
    thread_local! {
        static FOUND: RefCell<Vec<Found>> = const { RefCell::new(Vec::new()) };
    }
    let link = std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()?;
    let pipe = link.to_str()?.to_owned();
    FOUND.with_borrow_mut(|found| {
        found.retain(|(_, at, _)| at.elapsed() < KEPT);
        if let Some((_, _, known)) = found.iter().find(|(name, ..)| *name == pipe) {
            return *known;
        }
        let now = search(&pipe, tid, writes);
        found.truncate(MOST_PIPES - 1);
        found.push((pipe, Instant::now(), now));
        now
    })
}

fn search(pipe: &str, tid: u32, writes: bool) -> Option<(Kin, u32)> {
    let own = std::process::id();
    let mut children = children(tid);
    if tid != own {
        children.extend(self::children(own));
    }
    children.truncate(MOST_CHILDREN);
    let parent = std::os::unix::process::parent_id();
    let kin = children.into_iter().map(|pid| (Kin::Child, pid)).chain([(Kin::Parent, parent)]);
    kin.into_iter().find(|(_, pid)| has_end(*pid, pipe, !writes))
}

/// The child of this process whose pidfd the host's `fd` is. None: another process, or one that was
/// waited for.
pub fn of_pidfd(fd: i32) -> Option<u32> {
    let about = text(&first_bytes(&format!("/proc/self/fdinfo/{fd}")));
    let pid = about.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    let pid = pid.trim().parse().ok()?;
    (parent(pid)? == std::process::id()).then_some(pid)
}

fn parent(pid: u32) -> Option<u32> {
    let stat = text(&first_bytes(&format!("/proc/{pid}/stat")));
    // Its name, in parentheses, may contain anything: the state and the parent are behind it.
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The processes that a thread of this process has started and that have not been waited for.
pub fn children(tid: u32) -> Vec<u32> {
    let path = format!("/proc/self/task/{tid}/children");
    let mut list = text(&first_bytes(&path));
    if list.len() as u64 + 1 >= MOST_BYTES {
        // A number that was cut would be another process.
        list.truncate(list.rfind(' ').unwrap_or(0));
    }
    list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// The first `MOST_BYTES` of a file; none of one that cannot be read.
fn first_bytes(path: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path);
    let read = file.and_then(|file| file.take(MOST_BYTES).read_to_end(&mut bytes));
    if read.is_err() {
        bytes.clear();
    }
    bytes
}

/// Whether a process has the end of a pipe that is written to, or read from. The mode of a link in
/// /proc/PID/fd shows what the descriptor may be used for.
fn has_end(pid: u32, pipe: &str, writing: bool) -> bool {
    const READS: u32 = 0o400;
    const WRITES: u32 = 0o200;
    let Ok(folder) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    let wanted = if writing { WRITES } else { READS };
    folder.flatten().take(MOST_FDS).any(|entry| {
        let path = entry.path();
        let same = std::fs::read_link(&path).is_ok_and(|link| link.as_os_str() == pipe);
        same && std::fs::symlink_metadata(&path).is_ok_and(|link| link.mode() & wanted != 0)
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end().to_owned()
}

fn is_interpreter(comm: &str) -> bool {
    const INTERPRETERS: [&str; 6] = ["python", "node", "ruby", "perl", "php", "bash"];
    INTERPRETERS.iter().any(|name| comm.starts_with(name))
}

/// The name, and of an interpreter the script or module that it runs; no other words, since they
/// may contain a secret.
fn name_of(comm: &str, cmdline: &[u8]) -> String {
    if !is_interpreter(comm) {
        return comm.to_owned();
    }
    let mut words = cmdline.split(|byte| *byte == 0).skip(1);
    let script = loop {
        match words.next() {
            Some(b"-m") => break words.next(),
            // Python's options with a word of their own.
            Some(b"-X" | b"-W") => drop(words.next()),
            Some(b"-c" | b"-e" | b"") | None => break None,
            Some(word) if word.starts_with(b"-") => {}
            Some(word) => break Some(word),
        }
    };
    match script.and_then(|path| path.rsplit(|byte| *byte == b'/').next()) {
        Some(script) => format!("{comm} {}", text(script)),
        None => comm.to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::expect_used)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::process::{Command, Stdio};

    #[test]
    fn a_child_has_the_other_end_of_the_pipes_it_was_given() {
        let mut child =
            Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("cat");
        let (to, from) = (child.stdin.take().expect("stdin"), child.stdout.take().expect("stdout"));
        let tid = crate::thread::cached_tid();
        assert_eq!(children(tid), [child.id()]);
        assert_eq!(other_end(to.as_raw_fd(), tid, true), Some((Kin::Child, child.id())));
        assert_eq!(other_end(from.as_raw_fd(), tid, false), Some((Kin::Child, child.id())));
        // It does not write where it reads.
        assert_eq!(search(&link(to.as_raw_fd()), tid, false), None);
        assert_eq!(name(child.id()), "cat");
        drop(to);
        child.wait().expect("it ends");
        assert_eq!(search(&link(from.as_raw_fd()), tid, false), None);
        assert_eq!(read_name(child.id()), "");
        assert_eq!(other_end(-1, tid, false), None);
    }

    fn link(fd: i32) -> String {
        let link = std::fs::read_link(format!("/proc/self/fd/{fd}")).expect("a descriptor");
        link.to_str().expect("plain").to_owned()
    }

    #[test]
    fn an_interpreter_is_named_with_what_it_runs_and_nothing_else() {
        assert_eq!(name_of("spooler", b"spooler\0--key\0secret\0"), "spooler");
        let line = b"/usr/bin/python3\0-u\0-X\0dev\0/srv/sorter.py\0secret\0";
        assert_eq!(name_of("python3", line), "python3 sorter.py");
        assert_eq!(name_of("python", b"python\0-m\0celery\0-A\0app\0"), "python celery");
        assert_eq!(name_of("python", b"python\0-c\0secret\0"), "python");
        assert_eq!(name_of("bash", b"bash"), "bash");
        assert_eq!(name_of("python", b""), "python");
    }
}
