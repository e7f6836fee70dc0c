//! `dashcam why`, and finding the capture that an argument names.
//!
//! How it works: an argument is a capture, or a folder, which means the newest capture in it. The
//! slow requests are judged by `--slow`, else by the rules stored in the capture. The verdict is
//! printed as text, JSON or Markdown; for a folder the verdicts on its other captures follow
//! (`others`).
//!
//! What it promises: wrong rules are refused before the file is read. Exit code 0: a cause was
//! found; 1: none; 2: wrong usage; 3: the input cannot be read. Missing on purpose: the diagnosis
//! itself.

use std::io::{self, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use capture::read::{Capture, ReadError, Wanted};
use trigger::Rules;

use crate::others::Others;
use crate::progress;
use crate::screen;

/// Exit code for input that cannot be read.
pub const UNREADABLE: u8 = 3;
/// Exit code for "nothing found".
pub const NOTHING: u8 = 1;
/// Exit code for wrong usage.
pub const USAGE: u8 = 2;

/// Rules for captures without readable rules of their own.
const DEFAULT_SLOW: &str = "500ms";

/// The form in which a verdict is printed.
#[derive(Clone, Copy)]
pub enum Form {
    /// For people: short facts at a terminal, a sentence each in a pipe.
    Text,
    /// Schema 1.
    Json,
    /// For a ticket.
    Markdown,
}

/// Names the cause of the slow requests in a capture; with `explain` also the reasons for it.
pub fn why(path: &Path, form: Form, slow: Option<&str>, explain: bool) -> ExitCode {
    // Wrong rules are the caller's error, whatever the file is.
    if let Err(code) = slow.map_or(Ok(()), |text| parsed(text).map(drop)) {
        return code;
    }
    let (file, capture) = match open_for(path, Wanted::Causes) {
        Ok(found) => found,
        Err(code) => return code,
    };
    let rules = match judged_by(&capture, slow) {
        Ok(rules) => rules,
        Err(code) => return code,
    };
    progress::stage("looking for causes");
    let limit_ns = |name: &str| rules.limit_ns(name);
    let diagnosis = match explain {
        true => diagnosis::diagnose_explained(&capture, limit_ns),
        false => diagnosis::diagnose(&capture, limit_ns),
    };
    progress::clear();
    // Empty unless it was requested.
    let explanation = diagnosis::to_explanation(&diagnosis);
    // The answer first; the verdicts on the rest of the folder follow it.
    let others = || path.is_dir().then(|| Others::beside(&file, &diagnosis, slow.map(|_| &rules)));
    let name = file.display().to_string();
    match form {
        Form::Json => {
            let mut told = diagnosis::to_json(&diagnosis, &name);
            if let (Some(others), Some(told)) = (others(), told.as_object_mut()) {
                told.insert("others".to_owned(), others.to_json());
            }
            println!("{told:#}");
        }
        Form::Markdown => {
            print!("{}", diagnosis::to_markdown(&diagnosis, &name));
            if !explanation.is_empty() {
                println!("\n```text{explanation}```");
            }
            let others = others().map(|others| others.to_text()).filter(|text| !text.is_empty());
            others.into_iter().for_each(|text| println!("\n{}", diagnosis::escaped(&text)));
        }
        Form::Text => {
            match screen::terminal() {
                Some(screen) => {
                    print!("{}", screen::origin(&file, &capture.meta));
                    print!("{}", diagnosis::to_screen(&diagnosis, screen));
                }
                None => print!("{}", diagnosis::to_text(&diagnosis)),
            }
            print!("{explanation}");
            let _ = io::stdout().flush();
            others().into_iter().for_each(|others| print!("{}", others.to_text()));
        }
    }
    ExitCode::from(match diagnosis.findings.is_empty() {
        // "Nothing to blame" would be a guess: the records to judge by are lost.
        true if diagnosis.total == 0 && !capture.damage.is_empty() => UNREADABLE,
        true => NOTHING,
        false => 0,
    })
}

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

/// Opens the wanted parts of a capture.
fn open_for(path: &Path, wanted: Wanted) -> Result<(PathBuf, Capture), ExitCode> {
    let file = if path.is_dir() { newest(path)? } else { path.to_owned() };
    // Opening a pipe would block, and it cannot be read twice.
    if std::fs::metadata(&file).is_ok_and(|found| found.file_type().is_fifo()) {
        eprintln!("dashcam: {}: is a pipe, wanted a capture (FILE.dashcam)", file.display());
        return Err(ExitCode::from(UNREADABLE));
    }
    progress::stage(format!("reading {}", file.display()));
    match Capture::open_for(&file, wanted, &mut progress::at) {
        Ok(mut capture) => {
            progress::stage("naming native stacks");
            symbols::name_native(&mut capture).iter().for_each(|note| progress::note(note));
            progress::clear();
            Ok((file, capture))
        }
        Err(error) => {
            progress::clear();
            match &error {
                ReadError::Io(_, why) => unreadable(&file, why),
                _ => eprintln!("dashcam: {}: {error}", file.display()),
            }
            Err(ExitCode::from(UNREADABLE))
        }
    }
}

/// The newest capture in a folder, by time of writing.
pub fn newest(folder: &Path) -> Result<PathBuf, ExitCode> {
    std::fs::read_dir(folder).map_err(|error| {
        unreadable(folder, &error);
        ExitCode::from(UNREADABLE)
    })?;
    captures_in(folder).into_iter().max().map(|(_, _, path)| path).ok_or_else(|| {
        eprintln!(
            "dashcam: no capture (*.dashcam) in {}; a recorded service makes one when a request is \
             slow; `dashcam snap PID` makes one now",
            folder.display()
        );
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
    let help = match error.kind() {
        io::ErrorKind::PermissionDenied => "ask as the user that the service runs as",
        _ => "wanted a capture (FILE.dashcam), or a folder with captures in it",
    };
    eprintln!("dashcam: {}: {error}; {help}", path.display());
}
