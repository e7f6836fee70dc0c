//! Attaching, step by step.
//!
//! How it works: see the crate's head. Each step either goes on or returns a refusal; what has been
//! laid down or written by then is taken back by `Script`'s drop and by `Request::withdraw`.
//!
//! What it promises: the process is stopped at most `STOP_LIMIT` at a time, usually 1 ms. What is
//! missing on purpose: which processes, and what is printed (crates/cli).

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use sys::tracee::while_stopped;

use crate::interpreter::Interpreter;
use crate::memory::{Memory, ProcessMemory};
use crate::preflight::{self, Own};
use crate::refusal::{refused, Kind, Refusal};
use crate::remote::Remote;
use crate::ring::{Obstacle, Ring, Written};
use crate::script::{Arguments, Script};
use crate::target::Target;
use crate::{package, socket};

/// A thread that has not stopped by then is in the kernel, or no CPU is free for it, and would not
/// for long.
const STOP_LIMIT: Duration = Duration::from_secs(2);
/// How often a busy ring is tried, and the pause between two tries.
const TRIES: u32 = 200;
const PAUSE_NS: u64 = 5_000_000;
/// Once the script runs, the recorder has started, or failed to, within this time.
const START_LIMIT: Duration = Duration::from_secs(60);
/// The control socket listens within this time once the recorder has started.
const SOCKET_LIMIT: Duration = Duration::from_secs(5);
/// Passes of the wait for the answer between two reminders.
const REMIND_EVERY: u32 = 20;

/// What is wanted of a process.
pub struct Wanted<'a> {
    /// Settings of the recorder: name, value.
    pub settings: &'a [(String, String)],
    /// Folders that may hold the package, as the process sees them, besides its own.
    pub package_folders: &'a [PathBuf],
    /// Python processes that it starts from now on are to be recorded, too.
    pub tree: bool,
    /// How long the main thread may take to run Python code.
    pub patience: Duration,
}

/// A process in which the recorder was started.
#[derive(Clone, Debug)]
pub struct Attached {
    /// The process.
    pub pid: u32,
    /// The name of its service.
    pub service: String,
    /// The folder of its captures, as it sees it.
    pub out: String,
    /// How long it was stopped.
    pub stopped: Duration,
    /// How long the thread was held that ran the script.
    pub held: Duration,
    /// From there until the recorder had started, on a thread of its own.
    pub start: Duration,
    /// Whether it answers on its control socket; else why not.
    pub control: Result<(), String>,
    /// What it reports about modules that could not be hooked.
    pub notices: Vec<String>,
}

/// Starts the recorder in process `pid`.
pub fn attach(pid: u32, wanted: &Wanted<'_>) -> Result<Attached, Refusal> {
    let proc = Path::new("/proc");
    let own = Own::read(proc);
    let target = Target::read(proc, pid)?;
    preflight::check(&target, &own)?;
    if let Some(path) = socket::of(&target) {
        let found = format!("recorded already (its control socket is {})", path.display());
        let remedy =
            format!("`dashcam status {pid}` shows its settings, `dashcam set` changes them");
        return Err(refused("process", found, "not recorded yet", remedy));
    }
    let memory = ProcessMemory::open(&target.folder);
    let memory = memory.map_err(|error| preflight::denied(&own, &error))?;
    if !target.is_same() {
        return Err(gone());
    }
    let maps = target.maps().map_err(|error| preflight::denied(&own, &error))?;
    let interpreter = Interpreter::find(&memory, &maps)?;
    let writer = Writer::find(&memory, interpreter)?;
    let package = package::find(&target, interpreter, &maps, wanted.package_folders)?;
    let arguments = Arguments { package: &package, settings: wanted.settings, tree: wanted.tree };
    let script = Script::lay(&target, &arguments)?;
    let mut request = Request {
        target: &target,
        own,
        memory: &memory,
        writer,
        script: &script,
        stopped: Duration::ZERO,
    };
    let written = request.write()?;
    let answer = request.wait(written, wanted.patience);
    let withdrawn = request.withdraw(written);
    let answer = answer?;
    withdrawn?;
    attached(&target, &answer, request.stopped)
}

fn gone() -> Refusal {
    refused("process", "ended meanwhile", "a running process", "nothing is left to do")
        .of_kind(Kind::Gone)
}

/// How the interpreter is asked.
#[derive(Clone, Copy)]
enum Writer {
    Ring(Ring),
    Remote(Remote),
}

impl Writer {
    fn find(memory: &dyn Memory, interpreter: Interpreter) -> Result<Writer, Refusal> {
        match interpreter.minor {
            ..=13 => Ring::find(memory, interpreter).map(Writer::Ring),
            _ => Remote::find(memory, interpreter).map(Writer::Remote),
        }
    }

    fn write(&self, memory: &dyn Memory, script: &Script) -> Result<Option<Written>, Obstacle> {
        match self {
            Writer::Ring(ring) => ring.write(memory, &script.text()).map(Some),
            Writer::Remote(remote) => Ok(remote.write(memory, &script.path()).map(|()| None)?),
        }
    }
}

/// A request to one process.
struct Request<'a> {
    target: &'a Target,
    own: Own,
    memory: &'a ProcessMemory,
    writer: Writer,
    script: &'a Script,
    stopped: Duration,
}

impl Request<'_> {
    /// Stops the process and writes; again while others write there.
    fn write(&mut self) -> Result<Option<Written>, Refusal> {
        let mut busy = "";
        for _ in 0..TRIES {
            let (writer, memory, script) = (self.writer, self.memory, self.script);
            match self.stop_for(|| writer.write(memory, script))? {
                Ok(written) => return Ok(written),
                Err(Obstacle::Refused(refusal)) => return Err(refusal),
                Err(Obstacle::Busy(what)) => busy = what,
            }
            sys::thread::pause(PAUSE_NS);
        }
        let remedy = "nothing was changed; try again when its main thread runs Python code";
        Err(refused("interpreter", busy, "none waiting", remedy).of_kind(Kind::Late))
    }

    /// Runs `work` while the process is stopped.
    fn stop_for<T: Send>(&mut self, work: impl FnOnce() -> T + Send) -> Result<T, Refusal> {
        let target = self.target;
        // The number may have been given to another process since it was read.
        let checked = || target.is_same().then(work);
        match while_stopped(target.pid, STOP_LIMIT, checked) {
            Ok((Some(result), took)) => {
                self.stopped += took;
                Ok(result)
            }
            Ok((None, _)) => Err(gone()),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                let found = format!("{error}, not stopped after {} s", STOP_LIMIT.as_secs());
                let remedy = "nothing was changed; try again: in state D it waits in the kernel \
                              (a disk or NFS), in state R no CPU was free for it";
                Err(refused("process", found, "stopped", remedy))
            }
            Err(_) if !target.is_same() => Err(gone()),
            Err(error) => Err(preflight::denied(&self.own, &error)),
        }
    }

    /// Waits for the script's answer.
    fn wait(&self, written: Option<Written>, patience: Duration) -> Result<Value, Refusal> {
        let mut until = Instant::now() + patience;
        let mut taken = false;
        for pass in 1u32.. {
            if let Some(answer) = self.script.answer().map_err(|error| self.unreadable(&error))? {
                return Ok(answer);
            }
            if !taken && self.script.is_taken() {
                (taken, until) = (true, Instant::now() + START_LIMIT);
            }
            if !self.target.is_same() {
                return Err(gone());
            }
            if Instant::now() > until {
                // A thread may take it at this very moment.
                match taken || self.script.close() {
                    true => break,
                    false => continue,
                }
            }
            if let (0, Writer::Ring(ring), Some(written)) =
                (pass % REMIND_EVERY, &self.writer, written)
            {
                // An error means that the process has ended, which the next pass sees.
                let _ = ring.remind(self.memory, written);
            }
            sys::thread::pause(PAUSE_NS);
        }
        Err(if taken { self.silent() } else { self.late(patience) })
    }

    fn unreadable(&self, error: &io::Error) -> Refusal {
        let remedy = format!("see `dashcam ps` and the output of process {}", self.target.pid);
        refused("answer of the process", error.to_string(), "a JSON object", remedy)
    }

    /// The script began, and did not end.
    fn silent(&self) -> Refusal {
        let found = format!("none {} s after it began", START_LIMIT.as_secs());
        let remedy = "`dashcam ps` shows whether it is recorded; is the process stopped?";
        refused("answer of the process", found, "one", remedy).of_kind(Kind::Late)
    }

    /// No thread took it.
    fn late(&self, patience: Duration) -> Refusal {
        let found = format!("{} for {patience:?}", self.occupation());
        let remedy =
            "nothing was changed; an idle server runs Python with its next request: send it \
                      one and try again, or wait longer with --wait";
        refused("main thread", found, "running Python code", remedy).of_kind(Kind::Late)
    }

    /// What the main thread does, as the kernel shows it.
    fn occupation(&self) -> String {
        let read = |name: &str| std::fs::read_to_string(self.target.folder.join(name));
        let stat = read("stat").unwrap_or_default();
        let state = stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
        let place = read("wchan").unwrap_or_default();
        match (state, place.trim()) {
            (Some('T'), _) => "stopped by a signal".to_owned(),
            (Some('R'), _) => "in native code".to_owned(),
            (_, "" | "0") => "blocked".to_owned(),
            (_, place) => format!("blocked in the kernel ({place})"),
        }
    }

    /// Takes back what no thread has seen yet.
    fn withdraw(&mut self, written: Option<Written>) -> Result<(), Refusal> {
        let (memory, path) = (self.memory, self.script.path());
        let done = match self.writer {
            Writer::Ring(ring) => written.map_or(Ok(()), |written| ring.withdraw(memory, written)),
            Writer::Remote(remote) => self.stop_for(|| remote.withdraw(memory, &path))?,
        };
        match done {
            Err(_) if !self.target.is_same() => Err(gone()),
            Err(error) => Err(preflight::denied(&self.own, &error)),
            Ok(()) => Ok(()),
        }
    }
}

/// Reads the answer, and waits for the control socket.
fn attached(target: &Target, answer: &Value, stopped: Duration) -> Result<Attached, Refusal> {
    let text = |name: &str| answer[name].as_str().unwrap_or_default().to_owned();
    let micros = |name: &str| Duration::from_micros(answer[name].as_u64().unwrap_or(0));
    if answer["ok"] != true {
        let remedy = "the process runs on without recording";
        return Err(refused("start of the recorder", text("error"), "recording", remedy));
    }
    let control = match text("control").as_str() {
        "on" => listening(target),
        other => Err(other.to_owned()),
    };
    let notices = answer["notices"].as_array().into_iter().flatten();
    Ok(Attached {
        pid: target.pid,
        service: text("service"),
        out: text("out"),
        stopped,
        held: micros("held_us"),
        start: micros("start_us"),
        control,
        notices: notices.filter_map(|notice| Some(notice.as_str()?.to_owned())).collect(),
    })
}

fn listening(target: &Target) -> Result<(), String> {
    let until = Instant::now() + SOCKET_LIMIT;
    loop {
        match socket::of(target) {
            Some(_) => return Ok(()),
            None if Instant::now() > until => {
                return Err(format!("no socket answers after {} s", SOCKET_LIMIT.as_secs()));
            }
            None => sys::thread::pause(PAUSE_NS),
        }
    }
}
