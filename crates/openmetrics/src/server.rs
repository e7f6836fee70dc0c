//! The endpoint and its thread, which answers scrapers.
//!
//! How it works: one thread polls the listening socket and the clients, and does for each what can
//! be done without waiting. What it promises: the limits of the crate's page, and an end soon after
//! `stop`.

use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use metrics::window::Window;
use sys::local::{self, Waiting};
use sys::ours::Fd;

use crate::address::Address;
use crate::http::{answer, asked, refusal, Asked, Format};
use crate::limits::{AGAIN_NS, CLIENTS, LONGEST, PATIENCE_NS, TAKING_NS};
use crate::requests::RequestTimes;
use crate::store::Store;
use crate::text;

/// How often the thread checks for `stop` while there is nothing to listen on.
const POLL_NS: u64 = 200_000_000;

/// Called at each answer.
type Requests = Box<dyn Fn() -> Vec<RequestTimes> + Send + Sync>;
/// Called when it listens, or with why it does not: `on`, `off: ...`.
type Report<'a> = &'a dyn Fn(&str);

/// An endpoint: a store, and the state of the thread that answers from it. One for each start of
/// recording.
pub struct Endpoint {
    address: Address,
    pid: u32,
    store: Mutex<Store>,
    requests: Requests,
    listener: Mutex<Option<Arc<Fd>>>,
    /// Device and inode of the socket's file.
    file: Mutex<Option<(u64, u64)>>,
    stop: AtomicBool,
    /// Where it listens, or why it does not.
    state: Mutex<(String, String)>,
    scrapes: AtomicU64,
    refused: AtomicU64,
    bytes: AtomicU64,
    left_out: AtomicU64,
}

/// Running figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Where it listens; empty while it does not.
    pub listening: String,
    /// Why it does not listen; empty while it does.
    pub error: String,
    /// Series it has.
    pub series: u64,
    /// Answers with metrics that were taken whole.
    pub scrapes: u64,
    /// Clients turned away, or given up half way.
    pub refused: u64,
    /// Bytes of answers taken.
    pub bytes: u64,
    /// Series left out because another one has their name.
    pub collisions: u64,
    /// The last of them.
    pub last_collision: String,
    /// Families left out of the last answer because there was no room.
    pub left_out: u64,
    /// Members of sets not counted because there was no room.
    pub members_refused: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Endpoint {
    /// Does not listen yet: `run` does, on a thread of its own. `requests` is called for times of
    /// requests at each answer.
    pub fn new(address: Address, pid: u32, requests: Requests) -> Endpoint {
        let reserved = text::reserved();
        let reserved: Vec<&str> = reserved.iter().map(String::as_str).collect();
        Endpoint {
            address,
            pid,
            store: Mutex::new(Store::new(&reserved)),
            requests,
            listener: Mutex::default(),
            file: Mutex::default(),
            stop: AtomicBool::new(false),
            state: Mutex::default(),
            scrapes: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            left_out: AtomicU64::new(0),
        }
    }

    /// Adds a window. Holds the store's lock; an answer holds it for milliseconds.
    pub fn window(&self, window: &Window) {
        lock(&self.store).add(window);
    }

    /// Answers given, and clients turned away.
    pub fn counts(&self) -> (u64, u64) {
        (self.scrapes.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed))
    }

    /// Running figures.
    pub fn stats(&self) -> Stats {
        let (listening, error) = lock(&self.state).clone();
        let store = lock(&self.store);
        let (scrapes, refused) = self.counts();
        Stats {
            listening,
            error,
            series: store.series as u64,
            scrapes,
            refused,
            bytes: self.bytes.load(Ordering::Relaxed),
            collisions: store.collisions,
            last_collision: store.last_collision.clone(),
            left_out: self.left_out.load(Ordering::Relaxed),
            members_refused: store.members_refused,
        }
    }

    /// Accepts no more clients and makes `run` return soon.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        if let Some(listener) = lock(&self.listener).take() {
            local::shut(&listener);
            self.remove_file();
        }
    }

    fn stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn remove_file(&self) {
        let Some(path) = self.address.path(self.pid) else { return };
        // If it is gone already, or another's, nothing has to be done.
        if lock(&self.file).take().is_some_and(|ours| node(&path) == Some(ours)) {
            let _ = std::fs::remove_file(path);
        }
    }

    /// Listens and answers until `stop`. If it cannot listen, it tries again. `report` is called
    /// with the endpoint's state when that changes: `on`, or `off: ` and why.
    pub fn run(&self, report: Report<'_>) {
        while !self.stopping() {
            match self.open() {
                Err(why) => {
                    self.changed(String::new(), why, report);
                    let until = sys::clock::now_ns() + AGAIN_NS;
                    while !self.stopping() && sys::clock::now_ns() < until {
                        sys::thread::pause(POLL_NS);
                    }
                }
                Ok((fd, place)) => {
                    let fd = Arc::new(fd);
                    *lock(&self.listener) = Some(fd.clone());
                    self.changed(place, String::new(), report);
                    if self.stopping() {
                        self.stop();
                    }
                    self.serve(&fd);
                }
            }
        }
    }

    fn changed(&self, listening: String, error: String, report: Report<'_>) {
        let mut state = lock(&self.state);
        let new = (listening, error);
        if *state == new {
            return;
        }
        *state = new.clone();
        drop(state);
        match new.1.as_str() {
            "" => report("on"),
            why => report(&format!("off: {why}")),
        }
    }

    /// A listening socket and where it is.
    fn open(&self) -> Result<(Fd, String), String> {
        if let Some(path) = self.address.path(self.pid) {
            let opened = open_unix(path.clone());
            *lock(&self.file) = node(&path).filter(|_| opened.is_ok());
            return opened;
        }
        let mut last = String::new();
        for socket in self.address.sockets() {
            let made = TcpListener::bind(socket).and_then(|listener| {
                listener.set_nonblocking(true)?;
                Ok((listener.local_addr()?, listener))
            });
            match made {
                Ok((at, listener)) => return Ok((OwnedFd::from(listener).into(), at.to_string())),
                Err(error) => last = error.to_string(),
            }
        }
        Err(format!(
            "{}: {last}; set openmetrics= to another port, or to a range for several processes; \
             tried again every {} s",
            self.address,
            AGAIN_NS / 1_000_000_000
        ))
    }

    fn serve(&self, listener: &Fd) {
        let mut clients: Vec<Client> = Vec::new();
        while !self.stopping() {
            let mut list =
                vec![Waiting { fd: listener.as_raw_fd(), to_write: false, ready: false }];
            list.extend(clients.iter().map(Client::waiting));
            let now = sys::clock::now_ns();
            let until = clients.iter().map(|client| client.until_ns).min();
            let ms = until.map(|until| until.saturating_sub(now) / 1_000_000 + 1);
            local::wait(&mut list, ms.map_or(-1, |ms| i32::try_from(ms).unwrap_or(i32::MAX)));
            if !listener.is_intact() {
                // The program has closed a descriptor that it did not open: a new one is opened.
                return;
            }
            let now = sys::clock::now_ns();
            let mut ready = list[1..].iter().map(|waiting| waiting.ready);
            clients.retain_mut(|client| self.go_on(client, ready.next().unwrap_or(false), now));
            if list[0].ready && !self.stopping() {
                self.accept(listener, &mut clients, now);
            }
        }
    }

    fn accept(&self, listener: &Fd, clients: &mut Vec<Client>, now: u64) {
        let fd = match local::accept(listener) {
            Ok(fd) => fd,
            Err(error) if again(&error) => return,
            Err(_) => {
                // No descriptor left in this process: do not accept again at once.
                self.refuse();
                return sys::thread::pause(POLL_NS);
            }
        };
        if clients.len() < CLIENTS {
            let until_ns = now + PATIENCE_NS;
            return clients.push(Client { fd, until_ns, state: State::Asking(Vec::new()) });
        }
        self.refuse();
        // The client may be gone; that is no error.
        let _ = local::write(&fd, &refusal(503, "Service Unavailable"));
    }

    fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Does what can be done now. False: forget the client.
    fn go_on(&self, client: &mut Client, ready: bool, now: u64) -> bool {
        if ready {
            match self.talk(client, now) {
                Turn::On => (),
                Turn::Done => return false,
                Turn::Broken => {
                    self.refuse();
                    return false;
                }
            }
        }
        if now < client.until_ns {
            return true;
        }
        self.refuse();
        if matches!(client.state, State::Asking(_)) {
            let _ = local::write(&client.fd, &refusal(408, "Request Timeout"));
        }
        false
    }

    fn talk(&self, client: &mut Client, now: u64) -> Turn {
        match &mut client.state {
            State::Asking(got) => {
                let mut buffer = [0; 2048];
                match local::read(&client.fd, &mut buffer) {
                    // A client connected only to check that the endpoint is there.
                    Ok(0) if got.is_empty() => return Turn::Done,
                    Ok(0) => return Turn::Broken,
                    Ok(length) => got.extend_from_slice(&buffer[..length]),
                    Err(error) if again(&error) => return Turn::On,
                    Err(_) => return Turn::Broken,
                }
                debug_assert!(got.len() <= LONGEST + buffer.len());
                let (text, counts) = match asked(got) {
                    Asked::NotYet => return Turn::On,
                    Asked::Metrics(format, is_head) => (self.metrics(format, is_head), true),
                    Asked::Refused(number, words) => {
                        self.refuse();
                        (refusal(number, words), false)
                    }
                };
                client.until_ns = now + TAKING_NS;
                client.state = State::Answering { text, at: 0, counts };
                self.talk(client, now)
            }
            State::Answering { text, at, counts } => {
                match local::write(&client.fd, &text[*at..]) {
                    Ok(length) => *at += length,
                    Err(error) if again(&error) => return Turn::On,
                    // A client that was turned away is counted already.
                    Err(_) => return if *counts { Turn::Broken } else { Turn::Done },
                }
                if *at < text.len() {
                    return Turn::On;
                }
                if *counts {
                    self.scrapes.fetch_add(1, Ordering::Relaxed);
                    self.bytes.fetch_add(text.len() as u64, Ordering::Relaxed);
                }
                Turn::Done
            }
        }
    }

    fn metrics(&self, format: Format, is_head: bool) -> Vec<u8> {
        let requests = (self.requests)();
        let (body, left_out) = lock(&self.store).text(&requests, format);
        self.left_out.store(left_out, Ordering::Relaxed);
        answer(200, "OK", format.content_type(), &body, is_head)
    }
}

/// Listens at a path. A socket that an ended process left there is removed; one that a process
/// listens on, or a file that is no socket, is not.
/// Device and inode of what is at a path.
fn node(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).map(|found| (found.dev(), found.ino())).ok()
}

fn open_unix(path: PathBuf) -> Result<(Fd, String), String> {
    let shown = path.display().to_string();
    let is_socket = std::fs::symlink_metadata(&path).map(|found| {
        use std::os::unix::fs::FileTypeExt;
        found.file_type().is_socket()
    });
    match is_socket {
        Ok(true) if local::is_alive(&path) => {
            return Err(format!(
                "{shown}: another process listens there; put {{pid}} into the path"
            ));
        }
        // An error shows when it is bound.
        Ok(true) => drop(std::fs::remove_file(&path)),
        Ok(false) => return Err(format!("{shown}: found a file, wanted a path that is free")),
        Err(_) => (),
    }
    let made = UnixListener::bind(&path).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    match made {
        Ok(listener) => Ok((OwnedFd::from(listener).into(), format!("unix:{shown}"))),
        Err(error) => {
            Err(format!("{shown}: {error}; wanted a path in a folder that can be written"))
        }
    }
}

fn again(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted)
}

struct Client {
    fd: Fd,
    until_ns: u64,
    state: State,
}

enum State {
    /// The bytes of the request that have come so far.
    Asking(Vec<u8>),
    /// The answer, and how much of it is taken.
    Answering {
        text: Vec<u8>,
        at: usize,
        /// It has metrics.
        counts: bool,
    },
}

enum Turn {
    On,
    Done,
    Broken,
}

impl Client {
    fn waiting(&self) -> Waiting {
        let to_write = matches!(self.state, State::Answering { .. });
        Waiting { fd: self.fd.as_raw_fd(), to_write, ready: false }
    }
}
