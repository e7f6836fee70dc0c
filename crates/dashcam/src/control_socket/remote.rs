//! The control socket: `dashcam ps`, `status`, `dump`, `snap`, `set` and `detach` from another
//! shell.
//!
//! How it works: a thread of ours sleeps in `poll` until a client of the same user connects. A
//! request is one line, a command and its arguments with tabs between; the answer is one line of
//! JSON, `{"ok":true,...}` or `{"ok":false,"error":"..."}`; then the connection is closed. Nothing
//! runs while nobody asks.
//!
//! What it promises: a client can waste its own place only. At most `CLIENTS` at once and one new
//! one every `ACCEPT_EVERY_NS`; `LONGEST` bytes a request; `PATIENCE_NS` for it to come and as long
//! for its answer to be taken. A client that is turned away is counted in `control_refused`.
//! Without the socket everything else works, and source `control` says why it is off.

use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{sync_channel, Receiver, TryRecvError};
use std::sync::Arc;

use format::json::Object;
use format::region::{losses, word};
use format::source::SourceState;
use ring::Place;
use sys::local::{self, Listener, Waiting};
use sys::ours::Fd;

use crate::captures::queue::{Job, Queue};
use crate::control_socket::dump;
use crate::control_socket::status::status_json;
use crate::lock::lock;
use crate::recording::Recording;
use crate::running::Socket;

/// Most clients at once.
const CLIENTS: usize = 8;
/// Most bytes of a request.
const LONGEST: usize = 4096;
/// A request comes, and its answer is taken, within this time each.
const PATIENCE_NS: u64 = 2_000_000_000;
/// A capture is written within this time.
const CAPTURE_NS: u64 = 30_000_000_000;
/// New clients are taken no faster than this: what asking in a circle may cost the host.
const ACCEPT_EVERY_NS: u64 = 5_000_000;
/// After the program closed the socket, the next one accepts no client for this time.
const REOPEN_NS: u64 = 1_000_000_000;
/// While a capture is being written its end is polled this often.
const POLL_MS: i32 = 20;
/// Dead processes' sockets that are checked when a process starts.
const TIDIED: usize = 64;

/// Opens the socket, or says in source `control` why there is none.
pub(crate) fn open(recording: &Recording) -> Option<Arc<Listener>> {
    let opened = match recording.config().control {
        false => Err("turned off by settings".to_owned()),
        true => local::folder().and_then(|folder| {
            local::tidy(&folder, TIDIED);
            Listener::open(&folder, std::process::id())
        }),
    };
    let (state, listener) = match opened {
        Ok(listener) => (SourceState::On, Some(Arc::new(listener))),
        Err(why) => (SourceState::off(why), None),
    };
    recording.set_source("control", state);
    listener
}

/// What may be asked of.
pub(crate) struct Asked {
    pub recording: Arc<Recording>,
    pub queue: Arc<Queue>,
    /// Stops recording, and waits for the end of our threads: not to be called on one of them.
    pub stop: fn(),
}

/// The life of the thread that answers.
pub(crate) fn run(asked: &Asked, socket: &Socket) {
    recorder::name_thread("dashcam-control");
    let recording = &asked.recording;
    let Some(mut listener) = lock(socket).clone() else { return };
    let mut clients: Vec<Client> = Vec::new();
    let mut accept_from_ns = 0u64;
    while !recording.stopping() {
        let now = sys::clock::now_ns();
        let pause_ns = accept_from_ns.saturating_sub(now);
        let fd = if pause_ns == 0 { listener.as_raw_fd() } else { -1 };
        let mut list = vec![Waiting { fd, to_write: false, ready: false }];
        list.extend(clients.iter().map(Client::waiting));
        local::wait(&mut list, timeout_ms(&clients, pause_ns, now));
        if !listener.is_intact() && !recording.stopping() {
            // The program has closed what it does not know.
            let Some(fresh) = open(recording) else { return };
            *lock(socket) = Some(fresh.clone());
            (listener, accept_from_ns) = (fresh, now + REOPEN_NS);
            clients.clear();
            continue;
        }
        let now = sys::clock::now_ns();
        let mut ready = list[1..].iter().map(|w| w.ready);
        clients.retain_mut(|client| client.go_on(asked, ready.next().unwrap_or(false), now));
        if list[0].ready && !recording.stopping() {
            accept_from_ns = now + ACCEPT_EVERY_NS;
            take(recording, &listener, &mut clients, now);
        }
    }
}

/// How long nothing can happen unless a client writes; -1 for ever.
fn timeout_ms(clients: &[Client], pause_ns: u64, now: u64) -> i32 {
    let ms = |ns: u64| i32::try_from(ns / 1_000_000 + 1).unwrap_or(i32::MAX);
    let accept = (pause_ns > 0).then(|| ms(pause_ns));
    let waits = clients.iter().map(|c| match c.state {
        State::Saving(_) => POLL_MS,
        _ => ms(c.until_ns.saturating_sub(now)),
    });
    accept.into_iter().chain(waits).min().unwrap_or(-1)
}

/// Takes one client that waits, if there is room and it is ours.
fn take(recording: &Recording, listener: &Listener, clients: &mut Vec<Client>, now: u64) {
    // An error: it has gone again, or this process has no descriptor left.
    let Ok(fd) = listener.accept() else { return };
    let ours = local::peer(&fd).is_ok_and(|(_, uid)| uid == local::own_uid());
    let refusal = match (ours, clients.len() < CLIENTS) {
        (true, true) => {
            let state = State::Asking(Vec::new());
            clients.push(Client { fd, until_ns: now + PATIENCE_NS, state, stops: false });
            return;
        }
        (false, _) => "found another user, wanted the one this process runs as".to_owned(),
        (_, false) => format!("found {CLIENTS} clients already; ask again"),
    };
    refused(recording);
    // The client may have gone; the refusal has no other reader.
    let _ = local::write(&fd, failed(&refusal).as_bytes());
}

fn refused(recording: &Recording) {
    recording.recorder.region().lose(losses::CONTROL_REFUSED, 1);
}

struct Client {
    fd: Fd,
    until_ns: u64,
    state: State,
    /// Recording stops once the answer is sent.
    stops: bool,
}

enum State {
    /// The request, as far as it has come.
    Asking(Vec<u8>),
    /// A capture is being written for it.
    Saving(Receiver<Result<PathBuf, String>>),
    /// What is left of the answer.
    Answering(Vec<u8>),
    /// Finished, or given up.
    Gone,
}

impl Client {
    fn waiting(&self) -> Waiting {
        let (fd, to_write) = match self.state {
            // A client that hangs up meanwhile is noticed when the answer is written.
            State::Saving(_) | State::Gone => (-1, false),
            State::Asking(_) => (self.fd.as_raw_fd(), false),
            State::Answering(_) => (self.fd.as_raw_fd(), true),
        };
        Waiting { fd, to_write, ready: false }
    }

    /// Does what can be done now. False: it is to be forgotten.
    fn go_on(&mut self, asked: &Asked, ready: bool, now: u64) -> bool {
        if let State::Saving(result) = &self.state {
            let late = now >= self.until_ns;
            let text = match result.try_recv() {
                Ok(Ok(path)) => done("path", &path.display().to_string()),
                Ok(Err(why)) => failed(&why),
                Err(TryRecvError::Empty) if !late => return true,
                Err(_) => failed("the capture was not written within 30 s"),
            };
            self.answer(text, now);
        } else if ready {
            self.talk(asked, now);
        }
        if !matches!(self.state, State::Gone) && now >= self.until_ns {
            refused(&asked.recording);
            return false;
        }
        !matches!(self.state, State::Gone)
    }

    fn talk(&mut self, asked: &Asked, now: u64) {
        match &mut self.state {
            State::Asking(got) => {
                let mut buffer = [0; 1024];
                match local::read(&self.fd, &mut buffer) {
                    // A client only checked whether the process answers.
                    Ok(0) if got.is_empty() => self.state = State::Gone,
                    Ok(0) => self.give_up(asked),
                    Ok(length) => {
                        got.extend_from_slice(&buffer[..length]);
                        self.heard(asked, now);
                    }
                    Err(error) if again(&error) => (),
                    Err(_) => self.give_up(asked),
                }
            }
            State::Answering(left) => match local::write(&self.fd, left) {
                Ok(length) => {
                    left.drain(..length);
                    if left.is_empty() {
                        self.state = State::Gone;
                        if self.stops {
                            stop_apart(asked);
                        }
                    }
                }
                Err(error) if again(&error) => (),
                Err(_) => self.give_up(asked),
            },
            State::Saving(_) | State::Gone => (),
        }
    }

    /// It hung up half way, or its connection broke.
    fn give_up(&mut self, asked: &Asked) {
        refused(&asked.recording);
        self.state = State::Gone;
    }

    fn heard(&mut self, asked: &Asked, now: u64) {
        let State::Asking(got) = &self.state else { return };
        let end = got.iter().position(|byte| *byte == b'\n');
        if end.unwrap_or(got.len()) > LONGEST {
            refused(&asked.recording);
            let text = failed(&format!("found a request of over {LONGEST} bytes, wanted fewer"));
            return self.answer(text, now);
        }
        let Some(end) = end else { return };
        match request(&got[..end]) {
            Err(why) => {
                refused(&asked.recording);
                self.answer(failed(&why), now);
            }
            Ok(Request::Snap(reason)) => {
                let (done, result) = sync_channel(1);
                let done = Some(done);
                let job = Job { reason, slow: None, fired: None, reaches_ns: None, done };
                asked.queue.post(job);
                self.until_ns = now + CAPTURE_NS;
                self.state = State::Saving(result);
            }
            Ok(Request::Ps) => self.answer(summary(asked), now),
            Ok(Request::Dump) => {
                let answer = dump::answer(&asked.recording);
                self.answer(answer.unwrap_or_else(|why| failed(&why)), now);
            }
            Ok(Request::Stop) => {
                self.stops = true;
                self.answer(Object::new().flag("ok", true).finish() + "\n", now);
            }
            Ok(Request::Status) => {
                let text = Object::new().flag("ok", true).raw("status", &status_json()).finish();
                self.answer(text + "\n", now);
            }
            Ok(Request::Set(given)) => {
                let text = match asked.recording.change(&given) {
                    Err(why) => failed(&why),
                    Ok(()) => {
                        Object::new()
                            .flag("ok", true)
                            .raw("settings", &asked.recording.config().json())
                            .finish()
                            + "\n"
                    }
                };
                self.answer(text, now);
            }
        }
    }

    fn answer(&mut self, text: String, now: u64) {
        self.until_ns = now + PATIENCE_NS;
        self.state = State::Answering(text.into_bytes());
    }
}

/// Stops recording on a thread of its own: it waits for the end of this one. If there is no thread
/// for it, recording goes on, and the client sees that the socket still answers.
fn stop_apart(asked: &Asked) {
    let stop = asked.stop;
    if let Err(error) = sys::thread::spawn_quiet("dashcam-stop", stop) {
        let state = SourceState::partly(format_args!("could not stop: {error}"));
        asked.recording.set_source("control", state);
    }
}

fn again(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted)
}

fn done(key: &str, value: &str) -> String {
    Object::new().flag("ok", true).text(key, value).finish() + "\n"
}

fn failed(why: &str) -> String {
    Object::new().flag("ok", false).text("error", why).finish() + "\n"
}

#[derive(Debug, PartialEq, Eq)]
enum Request {
    Ps,
    Dump,
    Status,
    Stop,
    Snap(String),
    Set(Vec<(String, String)>),
}

/// Longest reason, in characters.
const REASON: usize = 200;

/// Reads a request without its line end.
fn request(line: &[u8]) -> Result<Request, String> {
    let line = std::str::from_utf8(line).map_err(|_| "found bytes that are no text".to_owned())?;
    let mut words = line.split('\t');
    let command = words.next().unwrap_or_default();
    let words: Vec<&str> = words.collect();
    match (command, words.as_slice()) {
        ("ps", []) => Ok(Request::Ps),
        ("dump", []) => Ok(Request::Dump),
        ("status", []) => Ok(Request::Status),
        ("stop", []) => Ok(Request::Stop),
        ("snap", []) => Ok(Request::Snap("snap".to_owned())),
        ("snap", [reason]) => {
            let plain = |c: char| if c.is_control() { ' ' } else { c };
            Ok(Request::Snap(reason.chars().take(REASON).map(plain).collect()))
        }
        ("set", [_, ..]) => {
            let pair = |word: &&str| {
                let (name, value) = word
                    .split_once('=')
                    .ok_or_else(|| format!("found {word:?}, wanted name=value, like slow=250ms"))?;
                Ok((name.trim().to_owned(), value.trim().to_owned()))
            };
            Ok(Request::Set(words.iter().map(pair).collect::<Result<_, String>>()?))
        }
        _ => {
            let shown: String = command.chars().take(40).collect();
            Err(format!(
                "found the request {shown:?} with {} arguments, wanted ps, status, dump, \
                 stop, snap [reason] or set name=value...",
                words.len()
            ))
        }
    }
}

/// One row of `dashcam ps`.
fn summary(Asked { recording, queue, .. }: &Asked) -> String {
    let region = recording.recorder.region();
    let place = match region.place() {
        Place::File(path) => path.display().to_string(),
        Place::Process(_) => "process memory".to_owned(),
    };
    let since = region.header(word::START_EPOCH_NS).load(Ordering::Relaxed);
    let counts = recording.requests();
    Object::new()
        .flag("ok", true)
        .int("pid", u64::from(std::process::id()))
        .text("service", &recording.config().service)
        .flag("on", recorder::is_on())
        .int("since_epoch_ns", since)
        .int("requests", counts.0)
        .int("slow", counts.1)
        .int("captures", queue.count.load(Ordering::Relaxed))
        .text("box", &place)
        .text("verdict", lock(&queue.verdicts).newest())
        .text("no_requests_because", &recording.no_requests_because())
        .finish()
        + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_and_what_makes_no_sense_is_refused_with_what_is_wanted() {
        assert_eq!(request(b"ps"), Ok(Request::Ps));
        assert_eq!(request(b"dump"), Ok(Request::Dump));
        assert_eq!(request(b"stop"), Ok(Request::Stop));
        assert_eq!(request(b"snap"), Ok(Request::Snap("snap".to_owned())));
        assert_eq!(
            request("snap\todd \u{7}\u{1b}[1m".as_bytes()),
            Ok(Request::Snap("odd   [1m".to_owned()))
        );
        assert_eq!(
            request(&[b"snap\t".as_slice(), &[b'x'; 900]].concat()),
            Ok(Request::Snap("x".repeat(200)))
        );
        let pairs = [("slow", "a>1s, 2s"), ("enabled", "off")];
        let pairs = pairs.map(|(n, v)| (n.to_owned(), v.to_owned())).to_vec();
        assert_eq!(request(b"set\tslow=a>1s, 2s\tenabled=off"), Ok(Request::Set(pairs)));
        for bad in [
            b"".as_slice(),
            b"\xff\xfe",
            b"ps\tx",
            b"set",
            b"set\tslow",
            b"GET / HTTP/1.1",
            b"snap\ta\tb",
        ] {
            let refused = request(bad).expect_err("makes no sense");
            assert!(refused.starts_with("found "), "{refused}");
        }
    }
}
