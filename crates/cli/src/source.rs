//! The lines of source around the places that a verdict names, read on the host (setting
//! `source_lines`).
//!
//! How it works: `dashcam judge` opens the file of each place, as the frame names it, and appends
//! two lines before and two behind to the capture (`capture::source`).
//!
//! What it promises: only regular files of at most `FILE_MAX` bytes that a place of the verdict
//! names by an absolute path; nothing is executed, and nothing is waited for. A file that was
//! written since the process began is marked. Missing on purpose: encodings other than UTF-8.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use analysis::frames::Place;
use capture::read::Meta;
use capture::source::{append, SourceLines, CHARS_MAX, PLACES_MAX};
use diagnosis::{Diagnosis, Finding};

/// Bytes of a file of source. The largest in CPython's library has 0.9 MB.
const FILE_MAX: u64 = 4 << 20;
/// Lines before the place, and behind it.
const AROUND: u32 = 2;
/// O_NONBLOCK of Linux: opening a pipe without a writer does not block.
const O_NONBLOCK: i32 = 0o4000;
/// A process may have begun so much later than the kernel says: a script is often written just
/// before it is started.
const TICK_NS: u64 = 10_000_000;

/// Keeps the source of a verdict's places in its capture, unless the service's setting refuses it
/// or the capture has it.
pub fn keep(file: &Path, diagnosis: &Diagnosis<'_>) {
    let capture = diagnosis.capture;
    let is_on = capture.meta.all["settings"]["source_lines"].as_bool().unwrap_or(false);
    if !is_on || !capture.source.is_empty() {
        return;
    }
    let began_ns = began_epoch_ns(&capture.meta);
    let mut found: Vec<SourceLines> = Vec::new();
    for place in diagnosis.findings.iter().flat_map(places) {
        let known = found.iter().any(|s| s.line == place.line && s.file == place.file);
        if found.len() < PLACES_MAX && !known {
            found.extend(around(place, began_ns));
        }
    }
    if found.is_empty() {
        return;
    }
    if let Err(error) = append(file, &found) {
        eprintln!("dashcam: {}: lines of source are not kept: {error}", file.display());
    }
}

fn places(finding: &Finding) -> impl Iterator<Item = &Place> {
    let elsewhere = finding.elsewhere.iter().map(|(place, _)| place);
    finding.place.iter().chain(&finding.culprit).chain(elsewhere)
}

/// None: there is no such line, or the file is not one to be read.
fn around(place: &Place, began_ns: u64) -> Option<SourceLines> {
    let path = Path::new(&place.file);
    if place.line == 0 || !path.is_absolute() {
        return None;
    }
    let file = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path).ok()?;
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || metadata.len() > FILE_MAX {
        return None;
    }
    let first = place.line.saturating_sub(AROUND).max(1);
    let lines = lines(file, first, place.line.saturating_add(AROUND))?;
    let source = SourceLines {
        file: place.file.clone(),
        line: place.line,
        first,
        lines,
        changed: written_epoch_ns(&metadata) > began_ns,
    };
    source.own_line().is_some().then_some(source)
}

/// Lines `first` to `last`; None if they are not text.
fn lines(file: File, first: u32, last: u32) -> Option<Vec<String>> {
    let mut reader = BufReader::new(file.take(FILE_MAX));
    let (mut found, mut line) = (Vec::new(), Vec::new());
    for number in 1..=last {
        line.clear();
        if reader.read_until(b'\n', &mut line).ok()? == 0 {
            break;
        }
        if line.contains(&0) {
            return None;
        }
        if number >= first {
            let text = String::from_utf8_lossy(&line);
            found.push(text.trim_end_matches(['\n', '\r']).chars().take(CHARS_MAX).collect());
        }
    }
    Some(found)
}

/// When its bytes or its name changed last: a file that was moved here keeps its time of writing.
fn written_epoch_ns(metadata: &Metadata) -> u64 {
    let ns = |s: i64, ns: i64| s.saturating_mul(1_000_000_000).saturating_add(ns).max(0) as u64;
    ns(metadata.mtime(), metadata.mtime_nsec()).max(ns(metadata.ctime(), metadata.ctime_nsec()))
}

/// When the process began, or recording if the process is gone. Recording may have begun later
/// (`dashcam attach`), when the code was loaded already.
fn began_epoch_ns(meta: &Meta) -> u64 {
    let began = sys::processes::began_epoch_ns(meta.pid).map_or(u64::MAX, |ns| ns + TICK_NS);
    began.min(meta.start_epoch_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;

    /// A folder of this test's own.
    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("dashcam-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("made");
        folder
    }

    fn place(file: &Path, line: u32) -> Place {
        Place { file: file.display().to_string(), line, ..Place::default() }
    }

    #[test]
    fn two_lines_before_and_behind_are_taken() {
        let folder = folder("source");
        let file = folder.join("app.py");
        fs::write(&file, "one\ntwo\r\nthree\n\tfour\nfive\nsix").expect("written");
        let of = |line| around(&place(&file, line), u64::MAX);
        let found = of(4).expect("there");
        assert_eq!((found.first, found.own_line()), (2, Some("\tfour")));
        assert_eq!(found.lines, ["two", "three", "\tfour", "five", "six"]);
        assert_eq!(of(1).expect("there").lines, ["one", "two", "three"]);
        assert_eq!(of(6).expect("there").lines, ["\tfour", "five", "six"]);
        assert!(of(7).is_none() && of(0).is_none());
        assert!(!found.changed, "the process began in the far future");
        assert!(around(&place(&file, 4), 0).expect("there").changed);
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn what_is_no_file_of_source_is_not_read() {
        let folder = folder("no-source");
        let of = |file: &Path| around(&place(file, 1), 0);
        fs::write(folder.join("data"), b"a\0b\n").expect("written");
        assert!(of(&folder.join("data")).is_none(), "not text");
        assert!(of(&folder).is_none(), "a folder");
        assert!(of(Path::new("/dev/zero")).is_none(), "a device");
        assert!(of(Path::new("Cargo.toml")).is_none(), "relative: to which folder is not known");
        assert!(of(Path::new("<string>")).is_none() && of(&folder.join("gone.py")).is_none());
        let large = File::create(folder.join("large.py")).expect("made");
        large.set_len(FILE_MAX + 1).expect("grown");
        assert!(of(&folder.join("large.py")).is_none());
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn a_process_began_before_now() {
        let began_ns = sys::processes::began_epoch_ns(std::process::id()).expect("it runs");
        let now_ns = sys::clock::epoch_ns();
        assert!(began_ns > 0 && began_ns <= now_ns, "{began_ns} and {now_ns}");
        assert!(sys::processes::began_epoch_ns(u32::MAX).is_none());
    }
}
