//! Finding the capture that an argument names, and the rules to judge it by.
//!
//! How it works: an argument is a capture, or a folder, which means the newest capture in it. The
//! rules are those of `--slow`, else those stored in the capture.
//!
//! What it promises: an error is reported on stderr with a remedy, and comes back as exit code.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use capture::read::{Capture, ReadError, Wanted};
use trigger::Rules;

use crate::output::exit_code::{NOTHING, UNREADABLE, USAGE};
use crate::output::progress;

/// Rules for captures without readable rules of their own.
const DEFAULT_SLOW: &str = "500ms";

/// The rules given on the command line, else the capture's own. Reports wrong rules on stderr.
pub fn judged_by(capture: &Capture, slow: Option<&str>) -> Result<Rules, ExitCode> {
    match slow {
        Some(text) => parsed(text),
        None => Ok(default_rules(capture)),
    }
}

/// A capture's own rules. A recovered box that lost its settings is judged by the default.
pub fn default_rules(capture: &Capture) -> Rules {
    let own = Rules::parse(&capture.meta.slow);
    own.or_else(|_| Rules::parse(DEFAULT_SLOW)).unwrap_or_default()
}

/// The rules of `--slow`; reports wrong ones on stderr.
pub fn parsed(text: &str) -> Result<Rules, ExitCode> {
    Rules::parse(text).map_err(|wrong| {
        eprintln!("dashcam: --{wrong}");
        ExitCode::from(USAGE)
    })
}

/// Opens a capture, or the newest in a folder; reports an error on stderr.
pub fn open(path: &Path) -> Result<(PathBuf, Capture), ExitCode> {
    open_for(path, Wanted::All)
}

/// Opens what a diagnosis by these rules needs of a capture, else by its own rules.
pub fn open_judged(path: &Path, rules: Option<&Rules>) -> Result<(PathBuf, Capture), ExitCode> {
    let file = file_of(path)?;
    let capture = open_named(&file, &file, rules)?;
    Ok((file, capture))
}

/// The same of one file, which is called `name` on stderr.
pub fn open_named(file: &Path, name: &Path, rules: Option<&Rules>) -> Result<Capture, ExitCode> {
    named(name, || judged_parts(file, rules, &mut progress::at))
}

/// The same of one file, without reports on stderr.
pub fn judged_parts(
    file: &Path,
    rules: Option<&Rules>,
    at: &mut dyn FnMut(u64, u64),
) -> Result<Capture, ReadError> {
    let choose = |capture: &Capture| match rules {
        Some(rules) => diagnosis::wanted(capture, |name| rules.limit_ns(name)),
        None => {
            let rules = default_rules(capture);
            diagnosis::wanted(capture, |name| rules.limit_ns(name))
        }
    };
    Capture::open_judged(file, &choose, at)
}

/// Opens the wanted parts of a capture.
pub fn open_for(path: &Path, wanted: Wanted) -> Result<(PathBuf, Capture), ExitCode> {
    let file = file_of(path)?;
    let capture = named(&file, || Capture::open_for(&file, wanted, &mut progress::at))?;
    Ok((file, capture))
}

/// What `read` reads, with names of native code; reports an error on stderr.
fn named(
    name: &Path,
    read: impl FnOnce() -> Result<Capture, ReadError>,
) -> Result<Capture, ExitCode> {
    progress::stage(format!("reading {}", name.display()));
    match read() {
        Ok(mut capture) => {
            progress::stage("naming native stacks");
            symbols::name_native(&mut capture).iter().for_each(|note| progress::note(note));
            progress::clear();
            Ok(capture)
        }
        Err(error) => {
            progress::clear();
            Err(failed(name, &error))
        }
    }
}

/// The capture that an argument names: itself, or the newest in a folder.
pub fn file_of(path: &Path) -> Result<PathBuf, ExitCode> {
    let file = if path.is_dir() { newest(path)? } else { path.to_owned() };
    // Opening a pipe would block, and it cannot be read twice.
    if std::fs::metadata(&file).is_ok_and(|found| found.file_type().is_fifo()) {
        eprintln!("dashcam: {}: is a pipe, wanted a capture (FILE.dashcam)", file.display());
        return Err(ExitCode::from(UNREADABLE));
    }
    Ok(file)
}

/// Reports on stderr why a file could not be read.
pub fn failed(file: &Path, error: &ReadError) -> ExitCode {
    match error {
        ReadError::Io(_, why) => unreadable(file, why),
        _ => eprintln!("dashcam: {}: {error}", file.display()),
    }
    ExitCode::from(UNREADABLE)
}

/// The line for a folder without captures.
pub fn no_capture_in(folder: &Path) -> String {
    format!(
        "no capture (*.dashcam) in {}; a recorded service makes one when a request is slow; \
         `dashcam snap PID` makes one now",
        folder.display()
    )
}

/// The newest capture in a folder, by time of writing.
pub fn newest(folder: &Path) -> Result<PathBuf, ExitCode> {
    std::fs::read_dir(folder).map_err(|error| {
        unreadable(folder, &error);
        ExitCode::from(UNREADABLE)
    })?;
    captures_in(folder).into_iter().max().map(|(_, _, path)| path).ok_or_else(|| {
        eprintln!("dashcam: {}", no_capture_in(folder));
        ExitCode::from(NOTHING)
    })
}

/// The captures in a folder: time of writing, size in bytes, path.
pub fn captures_in(folder: &Path) -> Vec<(SystemTime, u64, PathBuf)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let captures = entries.filter_map(|entry| {
        let path = entry.path();
        let is_capture = path.extension().is_some_and(|x| x == "dashcam");
        let found = entry.metadata().ok().filter(|_| is_capture)?;
        Some((found.modified().ok()?, found.len(), path))
    });
    captures.collect()
}

/// Reports why there is nothing to read at `path`, with the remedy.
fn unreadable(path: &Path, error: &io::Error) {
    eprintln!("dashcam: {}: {error}; {}", path.display(), remedy(error));
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "ask as the service's user, or as one whom its folder is open to (chmod g+rx)"
        }
        _ => "wanted a capture (FILE.dashcam), or a folder with captures in it",
    }
}
