//! The log of captures: a line for each one, in a file beside them, for readers without the
//! service's stderr.
//!
//! How it works: `dashcam-capture` appends to OUT/SERVICE.captures.log (`sys::shared_log`) behind
//! each capture that it wrote. Six fields with tabs between; `-` is a field that is not known or
//! does not apply:
//!
//! ```text
//! 2026-11-21T10:14:03Z  PATH  REASON  REQUEST  MS  PID
//! ```
//!
//! MS is how long the request had taken when the rule fired; failed requests are listed without it.
//! The verdict follows as a line of its own, written by the command (`captures::explain`).
//!
//! What it promises: one line a capture, also of several processes at once; two files of about 1
//! MiB at most. A failure is counted in `captures_unlisted`, said once, and harms no capture.

use std::path::{Path, PathBuf};

use format::region::losses;

use crate::captures::queue::Job;
use crate::captures::snapshot;
use crate::recording::Recording;
use crate::say::say;
use settings::Config;

/// The file is put away when it has this many bytes.
const MOST_BYTES: u64 = 1 << 20;
/// Characters of a reason or a name.
const MOST_CHARS: usize = 400;

/// What was said of its failures.
#[derive(Default)]
pub(crate) struct CapturesLog {
    last_error: String,
}

impl CapturesLog {
    /// A capture was written.
    pub(crate) fn captured(&mut self, recording: &Recording, job: &Job, path: &Path) {
        let log = path_of(recording.config());
        let line = line(sys::clock::epoch_ns(), path, job, std::process::id());
        let Err(error) = sys::shared_log::append(&log, &line, MOST_BYTES) else { return };
        recording.recorder.region().lose(losses::CAPTURES_UNLISTED, 1);
        let error = format!("captures are not listed in {}: {error}", log.display());
        // A failure that repeats is reported once.
        if self.last_error != error {
            say(&error);
            self.last_error = error;
        }
    }
}

/// The file.
pub(crate) fn path_of(config: &Config) -> PathBuf {
    config.out.join(format!("{}.captures.log", config.service))
}

fn line(epoch_ns: u64, path: &Path, job: &Job, pid: u32) -> String {
    let fired = job.fired.as_ref();
    let took_ms = fired.map_or(0, |fired| fired.took_ns / 1_000_000);
    let fields = [
        snapshot::utc_to_read(epoch_ns),
        path.display().to_string(),
        cut(&job.reason),
        fired.map_or_else(String::new, |fired| cut(&fired.name)),
        if took_ms > 0 { took_ms.to_string() } else { String::new() },
        pid.to_string(),
    ];
    fields.map(|field| one_field(&field)).join("\t")
}

/// Without characters that would end a field or a line; reasons and names may be any text.
fn one_field(text: &str) -> String {
    if text.is_empty() {
        return "-".to_owned();
    }
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MOST_CHARS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::captures::queue::Fired;

    const AT: u64 = 1_795_256_043_000_000_000;

    fn job(reason: &str, fired: Option<(&str, u64)>) -> Job {
        let fired = fired.map(|(name, took_ns)| Fired { id: 0, name: name.to_owned(), took_ns });
        Job { reason: reason.to_owned(), slow: None, fired, reaches_ns: None, done: None }
    }

    #[test]
    fn a_line_has_six_fields_whatever_they_hold() {
        let path = Path::new("/srv/captures/s-1.dashcam");
        let of = |job| line(AT, path, &job, 4711);
        let reason = "slow: a request took 1.01 s: GET /";
        assert_eq!(
            of(job(reason, Some(("GET /", 1_006_700_000)))),
            format!("2026-11-21T10:14:03Z\t/srv/captures/s-1.dashcam\t{reason}\tGET /\t1006\t4711")
        );
        let failed = of(job("error: Timeout in GET /", Some(("GET /", 0))));
        assert!(failed.ends_with("\tGET /\t-\t4711"), "{failed}");
        let odd = of(job("two\nlines\tand \u{1b}[1m", None));
        assert!(odd.ends_with("\ttwo lines and  [1m\t-\t-\t4711"), "{odd}");
        let long = of(job(&"é".repeat(5000), None));
        assert!(long.contains(&format!("\t{}…\t", "é".repeat(MOST_CHARS))), "{long}");
        assert!(of(job("", None)).ends_with("\t-\t-\t-\t4711"));
    }
}
