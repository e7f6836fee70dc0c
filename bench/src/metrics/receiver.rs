//! A StatsD server that reads and sums, in a process of its own: like an agent it takes CPU, but
//! not the caller's locks.

use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The received totals.
pub struct Found {
    /// Datagrams read.
    pub packets: f64,
    /// Sum of all counters.
    pub sum: f64,
    /// Datagrams for which its socket had no room, by the kernel's count.
    pub dropped_packets: f64,
}

/// The process, from the caller's side.
pub struct Receiver {
    /// Its port on 127.0.0.1.
    pub port: u16,
    child: Child,
    answer: BufReader<ChildStdout>,
}

impl Receiver {
    /// Starts this program again, as a server.
    pub fn start() -> Result<Receiver, String> {
        let failed = |error: std::io::Error| format!("no receiver: {error}");
        let program = std::env::current_exe().map_err(failed)?;
        let mut child = Command::new(program)
            .arg("receive")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let mut answer = BufReader::new(child.stdout.take().ok_or("no receiver: no pipe")?);
        let mut line = String::new();
        answer.read_line(&mut line).map_err(failed)?;
        let port = line.trim().parse().map_err(|_| format!("no receiver: it said {line:?}"))?;
        Ok(Receiver { port, child, answer })
    }

    /// Ends it when it has read all.
    pub fn end(mut self) -> Result<Found, String> {
        drop(self.child.stdin.take());
        let mut text = String::new();
        self.answer.read_to_string(&mut text).map_err(|e| format!("the receiver: {e}"))?;
        let _ = self.child.wait();
        let numbers: Vec<f64> = text.split_whitespace().filter_map(|n| n.parse().ok()).collect();
        match numbers.as_slice() {
            [packets, sum, dropped] => {
                Ok(Found { packets: *packets, sum: *sum, dropped_packets: *dropped })
            }
            _ => Err(format!("the receiver said {text:?}")),
        }
    }
}

/// Bytes that the socket may hold: as many as a run sends. Without privileges the machine's limit.
const ROOM: libc::c_int = 1 << 28;

fn make_room(socket: &UdpSocket) {
    for option in [libc::SO_RCVBUF, libc::SO_RCVBUFFORCE] {
        // SAFETY: `ROOM` lives for the program, and the size is its own.
        unsafe {
            let room = std::ptr::from_ref(&ROOM).cast();
            let size = size_of::<libc::c_int>() as libc::socklen_t;
            libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, room, size);
        }
    }
}

/// Datagrams that the socket on this port had no room for.
fn dropped(port: u16) -> u64 {
    let table = std::fs::read_to_string("/proc/net/udp").unwrap_or_default();
    let local = format!("0100007F:{port:04X}");
    let line = table.lines().find(|line| line.split_whitespace().nth(1) == Some(&local));
    line.and_then(|l| l.split_whitespace().last()?.parse().ok()).unwrap_or(0)
}

/// Sum of a datagram's counters.
fn sum(datagram: &[u8]) -> f64 {
    let value = |line: &[u8]| {
        let line = std::str::from_utf8(line).ok()?;
        let (value, kind) = line.split_once(':')?.1.split_once('|')?;
        (kind == "c" || kind.starts_with("c|")).then(|| value.parse::<f64>().ok())?
    };
    datagram.split(|b| *b == b'\n').filter_map(value).sum()
}

static ENDS: AtomicBool = AtomicBool::new(false);

fn read_all() -> std::io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.set_read_timeout(Some(Duration::from_millis(200)))?;
    make_room(&socket);
    let port = socket.local_addr()?.port();
    println!("{port}");
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        ENDS.store(true, Ordering::Release);
    });
    let (mut buffer, mut packets, mut total) = (vec![0; 65536], 0u64, 0.0);
    loop {
        match socket.recv(&mut buffer) {
            Ok(length) => {
                packets += 1;
                total += sum(&buffer[..length]);
            }
            Err(_) if ENDS.load(Ordering::Acquire) => break,
            Err(_) => (),
        }
    }
    println!("{packets} {total} {}", dropped(port));
    Ok(())
}

/// This process is the server. False: it could not start.
pub fn serve() -> bool {
    match read_all() {
        Ok(()) => true,
        Err(error) => {
            eprintln!("no receiver: {error}");
            false
        }
    }
}
