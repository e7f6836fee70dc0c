//! A small service in Rust with one defect, by its first argument: `lock`, `cpu`, `peer` or
//! `sleep`. With the argument `healthy` it has none.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

/// One request in so many shows the defect.
const EVERY: u64 = 40;

struct Shop {
    defect: String,
    is_sick: bool,
    stock: Mutex<Vec<u64>>,
    peer: Option<SocketAddr>,
    requests: AtomicU64,
}

impl Shop {
    fn answer(&self, n: u64) -> u64 {
        let is_due = self.is_sick && n % EVERY == 0;
        match self.defect.as_str() {
            "lock" => count_in(&self.stock, n),
            "cpu" => mosaic(if is_due { 900_000_000 } else { 1000 }),
            "peer" => self.peer.map_or(0, |peer| consult(peer, is_due)),
            _ => settle(is_due),
        }
    }
}

#[inline(never)]
fn count_in(stock: &Mutex<Vec<u64>>, n: u64) -> u64 {
    let mut stock = stock.lock().unwrap();
    stock[n as usize % 64] += n;
    stock.iter().sum()
}

/// The culprit of `lock`.
#[inline(never)]
fn sweep(shop: &Shop) {
    let mut stock = shop.stock.lock().unwrap();
    if shop.is_sick {
        thread::sleep(Duration::from_millis(500));
    }
    stock.fill(0);
}

#[inline(never)]
fn mosaic(until: u64) -> u64 {
    let mut sum = 7u64;
    for step in 0..until {
        sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(step));
    }
    sum
}

#[inline(never)]
fn consult(peer: SocketAddr, is_due: bool) -> u64 {
    let mut line = TcpStream::connect(peer).unwrap();
    line.write_all(if is_due { b"L" } else { b"S" }).unwrap();
    let mut reply = [0u8; 1];
    line.read_exact(&mut reply).unwrap();
    u64::from(reply[0])
}

#[inline(never)]
fn settle(is_due: bool) -> u64 {
    thread::sleep(Duration::from_millis(if is_due { 500 } else { 1 }));
    1
}

/// A peer in another process: this program with the argument `be-the-peer`.
fn be_the_peer() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("{}", listener.local_addr().unwrap());
    for line in listener.incoming().flatten() {
        thread::spawn(move || {
            let mut line = line;
            let mut word = [0u8; 1];
            if line.read_exact(&mut word).is_ok() {
                thread::sleep(Duration::from_millis(if word[0] == b'L' { 500 } else { 1 }));
                let _ = line.write_all(b"d");
            }
        });
    }
}

fn start_peer() -> SocketAddr {
    let own = std::env::current_exe().unwrap();
    let mut peer = std::process::Command::new(own);
    let peer = peer.arg("be-the-peer").stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut address = String::new();
    BufReader::new(peer.stdout.unwrap()).read_line(&mut address).unwrap();
    address.trim().parse().unwrap()
}

fn converse(shop: &Shop, line: TcpStream) {
    line.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(line.try_clone().unwrap());
    let mut writer = line;
    let mut text = String::new();
    while reader.read_line(&mut text).is_ok_and(|n| n > 0) {
        while text != "\r\n" {
            text.clear();
            if reader.read_line(&mut text).unwrap_or(0) == 0 {
                return;
            }
        }
        text.clear();
        let body = {
            let _request = dashcam::request!("GET /");
            shop.answer(shop.requests.fetch_add(1, Ordering::Relaxed) + 1).to_string()
        };
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        if writer.write_all(head.as_bytes()).is_err() {
            return;
        }
    }
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let defect = words.get(1).cloned().unwrap_or_default();
    if defect == "be-the-peer" {
        return be_the_peer();
    }
    let peer = (defect == "peer").then(start_peer);
    dashcam::start(dashcam::Config::new()).unwrap();
    let shop: &'static Shop = Box::leak(Box::new(Shop {
        defect,
        is_sick: !words.iter().any(|word| word == "healthy"),
        stock: Mutex::new(vec![0; 64]),
        peer,
        requests: AtomicU64::new(0),
    }));
    if shop.defect == "lock" {
        thread::spawn(move || loop {
            thread::sleep(Duration::from_millis(1600));
            sweep(shop);
        });
    }
    let port: u16 = std::env::var("PORT").unwrap().parse().unwrap();
    for line in TcpListener::bind(("127.0.0.1", port)).unwrap().incoming().flatten() {
        thread::spawn(move || converse(shop, line));
    }
}
