//! `dashcam judge`: the verdict on captures that a service has just saved (setting `explain`).
//!
//! How it works: the recorder starts it for each capture, with its own limits, and reads one line
//! from its stdout. For people the verdict goes to stderr, which is the service's, and into the
//! list of captures: both also have it if the service has ended meanwhile. The lines of source that
//! go with it are kept in the capture (`source`).
//!
//! What it promises: when memory runs out this process is ended first, not the service.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::brief::{judged, Brief};
use crate::output::columns::utc;
use crate::read::open_judged;
use crate::source;

/// As the recorder's: the list is put away when it has this many bytes.
const MOST_BYTES: u64 = 1 << 20;

/// Judges each capture; `log`: the list of captures.
pub fn judge(files: &[PathBuf], log: Option<&Path>) -> ExitCode {
    // An error: the process is as likely to be ended as the service.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    let mut worst = ExitCode::SUCCESS;
    for file in files {
        match open_judged(file, None) {
            Ok((file, capture)) => {
                let diagnosis = judged(&capture);
                // First: a hook that runs on the answer may show them.
                source::keep(&file, &diagnosis);
                report(&Brief::of(&diagnosis, &file, log), log);
            }
            Err(code) => worst = code,
        }
    }
    worst
}

fn report(brief: &Brief, log: Option<&Path>) {
    let name = Path::new(&brief.file).file_name().unwrap_or_default().to_string_lossy();
    eprintln!("dashcam: {name}: {}", brief.judged.line);
    if let Some(log) = log {
        let now_ns =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
        if let Err(error) = sys::shared_log::append(log, &line(brief, now_ns), MOST_BYTES) {
            eprintln!("dashcam: the verdict is not listed in {}: {error}", log.display());
        }
    }
    // An error: the service has ended, and nobody reads it.
    let mut stdout = io::stdout().lock();
    let _ = writeln!(stdout, "{}", brief.to_fields()).and_then(|()| stdout.flush());
}

/// The six fields of a capture's line, `verdict: ` before the third, then fingerprint and seen.
fn line(brief: &Brief, now_ns: u64) -> String {
    let time = utc(now_ns).replace(' ', "T") + "Z";
    let verdict = format!("verdict: {}", brief.judged.line);
    let (fingerprint, seen) = (or_dash(&brief.judged.fingerprint), or_dash(&brief.judged.seen));
    [&*time, &*brief.file, &*verdict, "-", "-", "-", fingerprint, seen].join("\t")
}

fn or_dash(text: &str) -> &str {
    if text.is_empty() {
        "-"
    } else {
        text
    }
}
