//! A process as /proc shows it: its threads, their names, the calls they are blocked in.
//!
//! | reads | emits | from |
//! | --- | --- | --- |
//! | /proc/PID/task, TID/status | numbers, here and as the process sees them; names | everybody |
//! | /proc/PID/task/TID/stat, syscall | state, call | everybody, those who may trace it |
//! | /proc/PID/fd/N, net/tcp, net/tcp6 | what a descriptor is | those who may trace it |
//!
//! What it promises: what cannot be read is missing, and nothing is waited for. What is missing on
//! purpose: unix sockets' peers.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use samplers::python_stacks::Subject;
use sys::off_cpu::OffCpu;
use sys::task::{TaskCall, TaskReader};

/// A process, and its threads when it was read.
#[derive(Clone, Debug)]
pub struct Process {
    folder: PathBuf,
    pid: u32,
    subject: Subject,
    threads: Vec<Numbers>,
    /// By the number that the process sees.
    names: HashMap<u32, String>,
}

/// The numbers of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    /// As it is seen here.
    pub here: u32,
    /// As the process sees it.
    pub own: u32,
}

impl Process {
    /// This process.
    pub fn own() -> io::Result<Process> {
        let folder = PathBuf::from("/proc/self");
        let pid = std::process::id();
        let threads = numbers(&folder, pid)?;
        Ok(Process { folder, pid, subject: Subject::Own, threads, names: HashMap::new() })
    }

    /// The process of number `pid`; `own_pid` is its number as it sees itself. Errors: it has
    /// ended.
    pub fn other(pid: u32, own_pid: u32) -> io::Result<Process> {
        let folder = Path::new("/proc").join(pid.to_string());
        let threads = numbers(&folder, pid)?;
        let own = threads.iter().map(|thread| thread.own).collect();
        let subject = Subject::Other { pid: own_pid, threads: own };
        Ok(Process { folder, pid, subject, threads, names: HashMap::new() })
    }

    /// The same with names that the program gave its threads, by their number as it sees them: they
    /// are shown instead of the kernel's.
    #[must_use]
    pub fn named(self, names: HashMap<u32, String>) -> Process {
        Process { names, ..self }
    }

    /// Its number, as it is seen here.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// What the stack reader has to know of it.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Its threads, the main thread first.
    pub(crate) fn threads(&self) -> &[Numbers] {
        &self.threads
    }

    /// The number here of a thread that the process calls `own`.
    pub(crate) fn here(&self, own: u32) -> u32 {
        self.threads.iter().find(|thread| thread.own == own).map_or(own, |thread| thread.here)
    }

    /// The name that the program gave a thread, else the kernel's.
    pub(crate) fn name(&self, thread: Numbers) -> Option<String> {
        if let Some(name) = self.names.get(&thread.own) {
            return Some(name.clone());
        }
        let tid = thread.here;
        let name = fs::read(self.folder.join(format!("task/{tid}/comm"))).ok()?;
        Some(String::from_utf8_lossy(name.trim_ascii_end()).into_owned())
    }

    /// The state of a thread, and the call it is blocked in, if that may be seen.
    pub(crate) fn state(&self, tid: u32) -> Option<(char, Option<TaskCall>)> {
        let mut reader = TaskReader::open_in(&self.folder, tid).ok()?;
        let call = reader.call().ok();
        Some((reader.state().ok()?, call))
    }

    /// What shows whether a thread runs.
    pub(crate) fn watch(&self, tid: u32) -> io::Result<OffCpu> {
        OffCpu::open_in(&self.folder, tid)
    }

    /// What a descriptor of the process is: `tcp 10.0.0.1:5432`, `/tmp/x`, `socket:[123]`.
    pub(crate) fn descriptor(&self, fd: i32) -> Option<String> {
        let link = fs::read_link(self.folder.join(format!("fd/{fd}"))).ok()?;
        let link = link.to_string_lossy().into_owned();
        let inode = link.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']'));
        let peer = inode.and_then(|inode| {
            let table = |name: &str| fs::read_to_string(self.folder.join("net").join(name)).ok();
            let tables = ["tcp", "tcp6"].iter().filter_map(|name| table(name));
            tables.into_iter().find_map(|text| peer_in(&text, inode))
        });
        Some(peer.unwrap_or(link))
    }
}

/// The main thread, whose number is `pid`, comes first.
fn numbers(folder: &Path, pid: u32) -> io::Result<Vec<Numbers>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder.join("task"))? {
        let Some(here) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let status = fs::read_to_string(folder.join(format!("task/{here}/status")));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        let own = line.and_then(|line| line.split_whitespace().last()?.parse().ok());
        found.push(Numbers { here, own: own.unwrap_or(here) });
    }
    found.sort_unstable_by_key(|thread| (thread.here != pid, thread.here));
    Ok(found)
}

/// The far end of the TCP socket of this inode, in the text of /proc/PID/net/tcp or tcp6; for one
/// that listens its own address.
fn peer_in(text: &str, inode: &str) -> Option<String> {
    let row = |line: &str| -> Option<Vec<String>> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        (words.get(9)? == inode).then_some(words)
    };
    let words = text.lines().skip(1).find_map(row)?;
    let listens = words[3] == "0A";
    let end = socket_address(if listens { &words[1] } else { &words[2] })?;
    Some(if listens { format!("tcp, listening on {end}") } else { format!("tcp {end}") })
}

/// `0100007F:1538` is 127.0.0.1:5432: words of 32 bits, each as the machine stores it.
fn socket_address(text: &str) -> Option<String> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| u32::from_str_radix(ip.get(at..at + 8)?, 16).ok().map(u32::to_ne_bytes);
    if ip.len() == 8 {
        return Some(format!("{}:{port}", std::net::Ipv4Addr::from(word(0)?)));
    }
    let bytes = [word(0)?, word(8)?, word(16)?, word(24)?].concat();
    let ip = std::net::Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?);
    Some(match ip.to_ipv4_mapped() {
        Some(ip) => format!("{ip}:{port}"),
        None => format!("[{ip}]:{port}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCP: &str =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0        0 77 1 0 100
   1: 0100007F:A1B2 0100000A:1538 01 00000000:00000000 00:00000000 00000000  0        0 78 1 0 20
";

    #[test]
    fn a_socket_is_named_by_its_far_end_or_by_where_it_listens() {
        assert_eq!(peer_in(TCP, "78"), Some("tcp 10.0.0.1:5432".to_owned()));
        assert_eq!(peer_in(TCP, "77"), Some("tcp, listening on 127.0.0.1:8080".to_owned()));
        assert_eq!(peer_in(TCP, "7"), None);
        let mapped = socket_address("0000000000000000FFFF00000100007F:0050");
        assert_eq!(mapped.as_deref(), Some("127.0.0.1:80"));
        let six = socket_address("00000000000000000000000001000000:0050");
        assert_eq!(six.as_deref(), Some("[::1]:80"));
        assert_eq!(socket_address("01:50"), None);
    }

    #[test]
    fn this_process_has_its_threads_and_another_one_that_ended_has_none() {
        let own = Process::own().expect("it runs");
        assert_eq!(own.threads()[0], Numbers { here: own.pid(), own: own.pid() });
        assert!(own.state(own.pid()).is_some());
        let main = own.threads()[0];
        assert!(own.name(main).is_some_and(|name| name != "worker-1"), "the kernel's");
        let named = own.named(HashMap::from([(main.own, "worker-1".to_owned())]));
        assert_eq!(named.name(main).as_deref(), Some("worker-1"));
        assert!(Process::other(u32::MAX, 1).is_err());
    }
}
