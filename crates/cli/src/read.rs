//! `dashcam why`, and finding the capture that is meant.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use capture::read::{Capture, ReadError};
use trigger::Rules;

/// Exit code for input that cannot be read.
pub const UNREADABLE: u8 = 3;
/// Exit code for "nothing found".
pub const NOTHING: u8 = 1;
/// Exit code for wrong usage.
pub const USAGE: u8 = 2;

/// Rules for captures that carry none that can be read.
const DEFAULT_SLOW: &str = "500ms";

/// How a verdict is printed.
#[derive(Clone, Copy)]
pub enum Form {
    /// For a terminal.
    Text,
    /// Schema 1.
    Json,
    /// For a ticket.
    Markdown,
}

/// Names the cause of the slow requests in a capture.
pub fn why(path: &Path, form: Form, slow: Option<&str>) -> ExitCode {
    let (file, capture) = match open(path) {
        Ok(found) => found,
        Err(code) => return code,
    };
    let rules = match judged_by(&capture, slow) {
        Ok(rules) => rules,
        Err(code) => return code,
    };
    let diagnosis = diagnosis::diagnose(&capture, |name| rules.limit_ns(name));
    let file = file.display().to_string();
    match form {
        Form::Json => println!("{:#}", diagnosis::to_json(&diagnosis, &file)),
        Form::Markdown => print!("{}", diagnosis::to_markdown(&diagnosis, &file)),
        Form::Text => print!("{}", diagnosis::to_text(&diagnosis)),
    }
    ExitCode::from(if diagnosis.findings.is_empty() { NOTHING } else { 0 })
}

/// The rules given on the command line; without any the capture's own. Says on stderr what is wrong.
pub fn judged_by(capture: &Capture, slow: Option<&str>) -> Result<Rules, ExitCode> {
    let text = slow.map_or_else(|| capture.meta.slow.clone(), str::to_owned);
    match (Rules::parse(&text), slow) {
        (Ok(rules), _) => Ok(rules),
        (Err(wrong), Some(_)) => {
            eprintln!("dashcam: --slow: {wrong}");
            Err(ExitCode::from(USAGE))
        }
        // A recovered box whose settings were lost: judged by the default.
        (Err(_), None) => Ok(Rules::parse(DEFAULT_SLOW).unwrap_or_default()),
    }
}

/// Opens a capture, or the newest in a folder; says on stderr why not.
pub fn open(path: &Path) -> Result<(PathBuf, Capture), ExitCode> {
    let file = if path.is_dir() { newest(path)? } else { path.to_owned() };
    match Capture::open(&file) {
        Ok(mut capture) => {
            for note in symbols::name_native(&mut capture) {
                eprintln!("dashcam: {note}");
            }
            Ok((file, capture))
        }
        Err(error) => {
            match &error {
                ReadError::Io(..) => eprintln!("dashcam: {error}"),
                _ => eprintln!("dashcam: {}: {error}", file.display()),
            }
            Err(ExitCode::from(UNREADABLE))
        }
    }
}

/// The newest capture in a folder, by time of writing.
fn newest(folder: &Path) -> Result<PathBuf, ExitCode> {
    let entries = std::fs::read_dir(folder).map_err(|error| {
        eprintln!("dashcam: {}: {error}", folder.display());
        ExitCode::from(UNREADABLE)
    })?;
    let captures = entries.flatten().filter_map(|entry| {
        let path = entry.path();
        let is_capture = path.extension().is_some_and(|x| x == "dashcam");
        let modified = entry.metadata().ok().filter(|_| is_capture)?.modified().ok()?;
        Some((modified, path))
    });
    captures.max().map(|(_, path)| path).ok_or_else(|| {
        eprintln!("dashcam: no capture (*.dashcam) in {}", folder.display());
        ExitCode::from(NOTHING)
    })
}
