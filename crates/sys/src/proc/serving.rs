//! Which process serves: the sockets that a process listens on, and the processes below it.
//!
//! | reads | emits | from |
//! | --- | --- | --- |
//! | /proc/PID/fd/* (links) | its sockets | processes of the same user |
//! | /proc/PID/net/tcp, tcp6, unix | those that listen, with their addresses | 2.6 |
//! | /proc/PID/task/*/children | the processes it started | 3.5, with CONFIG_PROC_CHILDREN |
//! | /proc/PID/exe, cmdline, environ, task/*/comm | what such a process is | the same user |
//!
//! What it promises: bounded reading: `MOST_FDS` descriptors, `MOST_ROWS` rows of a table,
//! `MOST_BELOW` processes. The kernel lists listening TCP sockets before all others, so a machine
//! with many connections costs no more. Some milliseconds: not for a hot path.
//!
//! What it does not: sockets of dashcam itself are left out in this process only. What cannot be
//! read (another user's process, hidepid) is not found.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::ours;
use crate::processes;

const MOST_FDS: usize = 4096;
const MOST_ROWS: usize = 10_000;
const MOST_BELOW: usize = 64;
const MOST_TASKS: usize = 256;
/// Of an environment.
const MOST_BYTES: u64 = 256 << 10;

/// A process below another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Below {
    /// Its id.
    pub pid: u32,
    /// Its name, of an interpreter with what it runs: `python3 uvicorn`.
    pub name: String,
    /// It is a Python interpreter.
    pub is_python: bool,
    /// Its command line is that of the calling process: it was forked, or is the same program.
    pub is_same: bool,
    /// Dashcam's threads are in it.
    pub is_recorded: bool,
    /// The variables by which `dashcam run` starts the recorder came down to it.
    pub is_in_the_run: bool,
    /// Where it listens; None: nowhere.
    pub listens: Option<String>,
}

/// Where a process listens: the first address found, TCP before unix. None: nowhere, or not known.
pub fn listens(pid: u32) -> Option<String> {
    let sockets = sockets(pid);
    if sockets.is_empty() {
        return None;
    }
    let rows = |name: &str| fs::File::open(format!("/proc/{pid}/net/{name}")).map(BufReader::new);
    let tcp = ["tcp", "tcp6"].iter().filter_map(|name| rows(name).ok());
    let tcp = tcp.into_iter().find_map(|rows| tcp_listener(rows, &sockets));
    tcp.or_else(|| unix_listener(rows("unix").ok()?, &sockets))
}

/// Whether a client is connected to `address`, as `listens` gave it, at this moment.
pub fn has_clients(pid: u32, address: &str) -> bool {
    let rows = |name: &str| fs::File::open(format!("/proc/{pid}/net/{name}")).map(BufReader::new);
    match (address.strip_prefix("unix:"), address.rsplit_once(':')) {
        (Some(path), _) => rows("unix").is_ok_and(|rows| has_unix_client(rows, path)),
        (None, Some((_, port))) => {
            let Ok(port) = port.parse() else { return false };
            let tables = ["tcp", "tcp6"].iter().filter_map(|name| rows(name).ok());
            tables.into_iter().any(|rows| has_tcp_client(rows, port))
        }
        _ => false,
    }
}

fn has_tcp_client(rows: impl BufRead, port: u16) -> bool {
    const ESTABLISHED: &str = "01";
    let here = format!(":{port:04X}");
    rows.lines().skip(1).take(MOST_ROWS).map_while(Result::ok).any(|row| {
        let words: Vec<&str> = row.split_ascii_whitespace().collect();
        words.get(3) == Some(&ESTABLISHED) && words[1].ends_with(&here)
    })
}

/// A connection that was accepted has its listener's path.
fn has_unix_client(rows: impl BufRead, path: &str) -> bool {
    const CONNECTED: &str = "03";
    rows.lines().skip(1).take(MOST_ROWS).map_while(Result::ok).any(|row| {
        let words: Vec<&str> = row.split_ascii_whitespace().collect();
        words.get(5) == Some(&CONNECTED) && words.get(7) == Some(&path)
    })
}

/// The processes below this one, each behind its parent; at most `MOST_BELOW`.
pub fn below() -> Vec<Below> {
    let own = std::process::id();
    let command = fs::read(format!("/proc/{own}/cmdline")).unwrap_or_default();
    let mut pids = children(own);
    let mut at = 0;
    while at < pids.len() && pids.len() < MOST_BELOW {
        pids.extend(children(pids[at]));
        at += 1;
    }
    pids.truncate(MOST_BELOW);
    pids.into_iter().filter_map(|pid| described(pid, &command)).collect()
}

fn described(pid: u32, own_command: &[u8]) -> Option<Below> {
    let exe = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let exe = exe.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Some(Below {
        pid,
        name: processes::name(pid),
        is_python: exe.starts_with("python"),
        is_same: command == own_command,
        is_recorded: tasks(pid).any(|task| is_ours(pid, task)),
        is_in_the_run: has_variable(pid, b"DASHCAM_RUN=1"),
        listens: listens(pid),
    })
}

fn is_ours(pid: u32, task: u32) -> bool {
    let comm = fs::read(format!("/proc/{pid}/task/{task}/comm"));
    comm.is_ok_and(|comm| comm.starts_with(b"dashcam-"))
}

fn has_variable(pid: u32, wanted: &[u8]) -> bool {
    let mut text = Vec::new();
    let file = fs::File::open(format!("/proc/{pid}/environ"));
    let read = file.and_then(|file| file.take(MOST_BYTES).read_to_end(&mut text));
    read.is_ok() && text.split(|byte| *byte == 0).any(|variable| variable == wanted)
}

fn tasks(pid: u32) -> impl Iterator<Item = u32> {
    let folder = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    folder.take(MOST_TASKS).filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn children(pid: u32) -> Vec<u32> {
    let lists = tasks(pid)
        .filter_map(|task| fs::read_to_string(format!("/proc/{pid}/task/{task}/children")).ok());
    let mut found: Vec<u32> = Vec::new();
    lists.for_each(|list| {
        found.extend(list.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
    });
    found.truncate(MOST_BELOW);
    found
}

/// The inodes of a process's sockets, without dashcam's own in this process.
fn sockets(pid: u32) -> Vec<u64> {
    let own = std::process::id() == pid;
    let folder = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let inode = |entry: fs::DirEntry| {
        let fd: i32 = entry.file_name().to_str()?.parse().ok()?;
        let link = fs::read_link(entry.path()).ok()?;
        let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()?;
        (!own || !ours::has(fd)).then_some(inode)
    };
    folder.take(MOST_FDS).filter_map(inode).collect()
}

/// The address of the first of these sockets that listens, in a table of TCP sockets.
fn tcp_listener(rows: impl BufRead, sockets: &[u64]) -> Option<String> {
    const LISTENS: &str = "0A";
    for row in rows.lines().skip(1).take(MOST_ROWS) {
        let row = row.ok()?;
        let words: Vec<&str> = row.split_ascii_whitespace().collect();
        let (address, state, inode) = (words.get(1)?, words.get(3)?, words.get(9)?);
        if *state != LISTENS {
            // Those that listen come first.
            return None;
        }
        if inode.parse().is_ok_and(|inode| sockets.contains(&inode)) {
            return tcp_address(address);
        }
    }
    None
}

/// As `tcp_listener`, in the table of unix sockets.
fn unix_listener(rows: impl BufRead, sockets: &[u64]) -> Option<String> {
    const ACCEPTS: u32 = 1 << 16;
    for row in rows.lines().skip(1).take(MOST_ROWS) {
        let row = row.ok()?;
        let words: Vec<&str> = row.split_ascii_whitespace().collect();
        let (Some(flags), Some(inode)) = (words.get(3), words.get(6)) else { continue };
        let accepts = u32::from_str_radix(flags, 16).is_ok_and(|flags| flags & ACCEPTS != 0);
        if accepts && inode.parse().is_ok_and(|inode| sockets.contains(&inode)) {
            return Some(format!("unix:{}", words.get(7).unwrap_or(&"?")));
        }
    }
    None
}

/// `0100007F:1538` is 127.0.0.1:5432: words of 32 bits, each as the machine stores it.
fn tcp_address(text: &str) -> Option<String> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| u32::from_str_radix(ip.get(at..at + 8)?, 16).ok().map(u32::to_ne_bytes);
    if ip.len() == 8 {
        return Some(format!("{}:{port}", Ipv4Addr::from(word(0)?)));
    }
    let bytes = [word(0)?, word(8)?, word(16)?, word(24)?].concat();
    Some(format!("[{}]:{port}", Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)))
}

#[cfg(test)]
#[allow(clippy::expect_used)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;
    use std::process::{Command, Stdio};

    const TCP: &str =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0        0 77 1 0 100
   1: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0        0 78 1 0 100
   2: 0100007F:A1B2 0100000A:1538 01 00000000:00000000 00:00000000 00000000  0        0 79 1 0 20
   3: 0100007F:0051 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0        0 80 1 0 100
";
    const UNIX: &str = "Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 77 /run/a.sock
0000000000000000: 00000003 00000000 00000000 0001 03 78
0000000000000000: 00000003 00000000 00010000 0001 03 79
";

    #[test]
    fn a_listener_is_found_by_its_inode_and_a_connection_is_none() {
        let tcp = |sockets: &[u64]| tcp_listener(TCP.as_bytes(), sockets);
        assert_eq!(tcp(&[1, 78]).as_deref(), Some("0.0.0.0:80"));
        assert_eq!(tcp(&[77]).as_deref(), Some("127.0.0.1:8080"));
        assert_eq!(tcp(&[79]), None);
        // The kernel lists none that listens behind a connection.
        assert_eq!(tcp(&[80]), None);
        let six = tcp_address("00000000000000000000000001000000:0050");
        assert_eq!(six.as_deref(), Some("[::1]:80"));
        let unix = |sockets: &[u64]| unix_listener(UNIX.as_bytes(), sockets);
        assert_eq!(unix(&[77]).as_deref(), Some("unix:/run/a.sock"));
        assert_eq!((unix(&[78]), unix(&[79]).as_deref()), (None, Some("unix:?")));
    }

    #[test]
    fn a_client_is_a_connection_to_the_address_itself() {
        let tcp = |port| has_tcp_client(TCP.as_bytes(), port);
        // The far end's port is not this one's; nobody is connected to 8080.
        assert_eq!((tcp(0xA1B2), tcp(0x1538), tcp(8080)), (true, false, false));
        let connected = UNIX.replace("03 78", "03 78 /run/a.sock");
        assert!(has_unix_client(connected.as_bytes(), "/run/a.sock"));
        assert!(!has_unix_client(UNIX.as_bytes(), "/run/a.sock"));
    }

    #[test]
    fn the_sockets_of_this_process_are_found_without_ours() {
        let own = std::process::id();
        let path = std::env::temp_dir().join(format!("dashcam-serving-{own}"));
        let listener = UnixListener::bind(&path).expect("a socket");
        let noted = ours::note(std::os::fd::AsRawFd::as_raw_fd(&listener));
        assert_eq!(listens(own), None);
        drop(noted);
        assert_eq!(listens(own), Some(format!("unix:{}", path.display())));
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let address = tcp.local_addr().expect("an address").to_string();
        assert_eq!(listens(own).as_deref(), Some(address.as_str()));
        assert!(!has_clients(own, &address));
        let client = std::net::TcpStream::connect(&address).expect("it listens");
        assert!(has_clients(own, &address));
        drop(client);
        fs::remove_file(path).expect("it is there");
    }

    #[test]
    fn a_child_is_described_by_what_it_runs() {
        let start = |run: &str| {
            let mut command = Command::new("cat");
            command.stdin(Stdio::piped()).stdout(Stdio::null()).env("DASHCAM_RUN", run);
            command.spawn().expect("cat")
        };
        let (mut inside, mut outside) = (start("1"), start("0"));
        let found = below();
        let of = |pid| found.iter().find(|one| one.pid == pid).expect("a child").clone();
        let cat = Below {
            pid: inside.id(),
            name: "cat".to_owned(),
            is_python: false,
            is_same: false,
            is_recorded: false,
            is_in_the_run: true,
            listens: None,
        };
        assert_eq!(of(inside.id()), cat);
        assert!(!of(outside.id()).is_in_the_run);
        for child in [&mut inside, &mut outside] {
            drop(child.stdin.take());
            child.wait().expect("it ends");
        }
    }
}
