//! `explain=`: the verdict on each capture, by the command `dashcam` in a process of its own.
//!
//! How it works: behind each capture `dashcam-capture` starts `dashcam judge CAPTURE`
//! (`sys::detached`) and reads its one line from a pipe, between captures. The command itself
//! writes the verdict to the service's stderr and into the list of captures, so both have it also
//! if the service ends meanwhile. The verdict goes into `status`, and to the hook.
//!
//! What it promises: nothing is judged inside the service. One command at a time, of all processes
//! of a user (`sys::turn`, in the folder of the boxes): when a database fails, all workers have
//! slow requests at once. At most `WAITING` captures behind it, for `LONGEST_WAIT`; none while
//! memory is short; the kernel bounds its CPU time, memory and time on the clock. The host has no
//! child and no signal of it. What is not judged is counted, and its hook runs without a verdict.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ring::Place;
use sys::detached::{self, Detached, Limits, Running};
use sys::ours::Fd;

use crate::captures::captures_log;
use crate::captures::queue::Queue;
use crate::captures::verdict::Verdict;
use crate::lock::lock;
use crate::recording::Recording;
use crate::say::say;

/// Captures that wait for the one before.
const WAITING: usize = 16;
/// The largest golden capture (0.4 MiB) takes 0.4 s and 14 MiB; a full box is 150 times as large.
const LIMITS: Limits = Limits { cpu_s: 20, address_bytes: 1 << 30, clock_s: 60 };
/// A capture waits for its turn no longer; its hook waits with it.
const LONGEST_WAIT: Duration = Duration::from_secs(120);
/// The file of the turn.
const TURN: &str = "judging";
/// The answer is not waited for any longer: the kernel has ended the command before.
const PATIENCE: Duration = Duration::from_secs(LIMITS.clock_s as u64 + 5);
/// Without as much memory left the service could suffer.
const ROOM_BYTES: u64 = 512 << 20;
/// Bytes of an answer.
const LONGEST: usize = 16 * 1024;
/// What the command gets of the service's environment.
const PASSED_ON: [&str; 6] = ["PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ"];

/// The command that runs, and the captures that wait.
#[derive(Default)]
pub(crate) struct Explain {
    judging: Option<Judging>,
    waiting: VecDeque<Wanted>,
    command: Option<Result<PathBuf, String>>,
}

struct Wanted {
    path: PathBuf,
    reason: String,
    since: Instant,
}

struct Judging {
    wanted: Wanted,
    answer: Fd,
    read: Vec<u8>,
    running: Running,
    until: Instant,
}

impl Explain {
    /// A capture was written. Some: it will not be judged.
    pub(crate) fn captured(
        &mut self,
        recording: &Recording,
        queue: &Queue,
        path: &Path,
        reason: &str,
    ) -> Option<Verdict> {
        let since = Instant::now();
        let wanted = Wanted { path: path.to_owned(), reason: reason.to_owned(), since };
        if !recording.config().explain {
            return Some(wanted.unknown());
        }
        if let Err(why) = self.command() {
            lock(&queue.verdicts).refused.clone_from(&why);
            return Some(wanted.unknown());
        }
        if self.waiting.len() >= WAITING {
            lock(&queue.verdicts).missing += 1;
            return Some(wanted.unknown());
        }
        self.waiting.push_back(wanted);
        None
    }

    /// Reads the answer of the one that runs, else starts the next. Some: a capture's verdict, or
    /// that it has none.
    pub(crate) fn check(&mut self, recording: &Recording, queue: &Queue) -> Option<Verdict> {
        if let Some(judging) = &mut self.judging {
            let is_whole = judging.read();
            // Its end follows its answer at once; a host that adopts it must not keep a zombie.
            if !is_whole && Instant::now() < judging.until || !judging.running.reap() {
                return None;
            }
            let judged = self.judging.take()?;
            let verdict = judged.verdict();
            let mut verdicts = lock(&queue.verdicts);
            match &verdict {
                Some(verdict) => verdicts.came(verdict.clone()),
                None => verdicts.missing += 1,
            }
            drop(verdicts);
            return Some(verdict.unwrap_or_else(|| {
                say(&judged.silent());
                judged.wanted.unknown()
            }));
        }
        let since = self.waiting.front()?.since;
        let turn = match turn(recording.recorder.region().place()) {
            Turn::Other if since.elapsed() < LONGEST_WAIT => return None,
            turn => turn,
        };
        let wanted = self.waiting.pop_front()?;
        let started = match turn {
            Turn::Other => Err("other processes of this user judge captures".to_owned()),
            Turn::Taken(turn) => self.start(recording, &[&wanted.path], Some(turn)),
            Turn::None => self.start(recording, &[&wanted.path], None),
        };
        match started {
            Ok((answer, running)) => {
                let until = Instant::now() + PATIENCE;
                self.judging = Some(Judging { wanted, answer, read: Vec::new(), running, until });
                None
            }
            Err(why) => {
                let mut verdicts = lock(&queue.verdicts);
                verdicts.missing += 1;
                verdicts.refused = why;
                Some(wanted.unknown())
            }
        }
    }

    /// Whether a capture is judged, or waits for that.
    pub(crate) fn is_busy(&self) -> bool {
        self.judging.is_some() || !self.waiting.is_empty()
    }

    /// The process ends: one command judges all that wait, and nobody reads its answer. Returns the
    /// captures whose hook has not run.
    pub(crate) fn end(&mut self, recording: &Recording) -> Vec<Verdict> {
        let waiting: Vec<Wanted> = self.waiting.drain(..).collect();
        let paths: Vec<&Path> = waiting.iter().map(|wanted| wanted.path.as_path()).collect();
        if !paths.is_empty() {
            // An error: they are not judged, and nobody is left to be informed.
            let _ = self.start(recording, &paths, None);
        }
        let running = self.judging.take().map(|judging| judging.wanted);
        running.iter().chain(&waiting).map(Wanted::unknown).collect()
    }

    fn command(&mut self) -> Result<PathBuf, String> {
        self.command.get_or_insert_with(find).clone()
    }

    /// `turn`: what the command keeps until it ends.
    fn start(
        &mut self,
        recording: &Recording,
        paths: &[&Path],
        turn: Option<OwnedFd>,
    ) -> Result<(Fd, Running), String> {
        let left = sys::room::available_bytes();
        if left < ROOM_BYTES {
            return Err(format!("found {} MiB of memory left, wanted 512 MiB", left >> 20));
        }
        let program = self.command()?;
        let log = captures_log::path_of(recording.config());
        let mut arguments: Vec<OsString> = vec!["judge".into(), "--log".into(), log.into()];
        arguments.extend(paths.iter().map(|path| path.as_os_str().to_owned()));
        let passed = |name: &&str| Some(((*name).into(), sys::environment::value(name)?));
        let mut environment: Vec<(OsString, OsString)> =
            PASSED_ON.iter().filter_map(passed).collect();
        environment.push(("DASHCAM_ENABLED".into(), "off".into()));
        let failed = |error| format!("{}: {error}", program.display());
        let (answer, end) = detached::pipe().map_err(failed)?;
        let running = detached::start(Detached {
            program: &program,
            arguments,
            environment,
            stdin: None,
            stdout: Some(end),
            stderr: sys::ours::own_stderr().ok(),
            third: turn,
            limits: Some(LIMITS),
        });
        Ok((answer, running.map_err(failed)?))
    }
}

/// Whether this process may judge.
enum Turn {
    Taken(OwnedFd),
    /// Another one does.
    Other,
    /// There is no folder for the file of the turn, or no room in it.
    None,
}

fn turn(place: &Place) -> Turn {
    let file = match place {
        Place::File(own) => own.with_file_name(TURN),
        Place::Process(_) => match sys::local::folder() {
            Ok(folder) => folder.join(TURN),
            Err(_) => return Turn::None,
        },
    };
    match sys::turn::take(&file) {
        Ok(Some(turn)) => Turn::Taken(turn),
        Ok(None) => Turn::Other,
        Err(_) => Turn::None,
    }
}

impl Wanted {
    fn unknown(&self) -> Verdict {
        Verdict::unknown(&self.path, &self.reason)
    }
}

impl Judging {
    /// Takes what was written. Whether nothing more will come.
    fn read(&mut self) -> bool {
        loop {
            let mut part = [0; 1024];
            match detached::read(&self.answer, &mut part) {
                Ok(0) => return true,
                Ok(count) => self.read.extend_from_slice(part.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return false,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => (),
                // The host has closed it.
                Err(_) => return true,
            }
            if self.read.len() > LONGEST {
                return true;
            }
        }
    }

    fn verdict(&self) -> Option<Verdict> {
        let text = std::str::from_utf8(&self.read).ok()?;
        Verdict::parse(text, &self.wanted.path, &self.wanted.reason)
    }

    fn silent(&self) -> String {
        let Limits { cpu_s, address_bytes, clock_s } = LIMITS;
        format!(
            "no verdict on {}: dashcam judge ended without one, or is of another version; it may \
             use {cpu_s} s of CPU time, {} MiB and {clock_s} s; `dashcam why` has no limits",
            self.wanted.path.display(),
            address_bytes >> 20
        )
    }
}

/// The command: the one that is named, beside the package or the program, or in PATH.
fn find() -> Result<PathBuf, String> {
    if let Some(named) = sys::environment::value("DASHCAM_COMMAND") {
        let named = PathBuf::from(named);
        return match is_executable(&named) {
            true => Ok(named),
            false => Err(format!(
                "DASHCAM_COMMAND: found {}, wanted the command dashcam",
                named.display()
            )),
        };
    }
    let library = sys::library::path().unwrap_or_default();
    let installed = library.ancestors().skip(1).map(|folder| folder.join("bin/dashcam"));
    let path = sys::environment::value("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).map(|folder| folder.join("dashcam"));
    let owner = std::fs::metadata(&library).map(|found| found.uid()).ok();
    let installed = installed.filter(|path| is_trusted(path, owner));
    let found = installed.chain(in_path).find(|path| path.is_absolute() && is_executable(path));
    found.ok_or_else(|| {
        format!(
            "found no command dashcam above {} nor in PATH, wanted it to name causes; install it, \
             or set explain=off",
            library.display()
        )
    })
}

/// Whether a file is root's, this user's, or of the owner of this code. The folders above the
/// package may be everybody's: for one below /tmp, `/tmp/bin/dashcam` would be run.
fn is_trusted(path: &Path, owner: Option<u32>) -> bool {
    let trusted = [Some(0), Some(sys::local::own_uid()), owner];
    std::fs::metadata(path).is_ok_and(|found| trusted.contains(&Some(found.uid())))
}

fn is_executable(path: &Path) -> bool {
    let found = std::fs::metadata(path);
    found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
