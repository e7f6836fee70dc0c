//! What the other captures of a folder show: the same cause again, when and in which processes, or
//! other causes.
//!
//! How it works: one capture shows some seconds of one process; the others show whether it is
//! typical of the service. They are compared by fingerprint, which is the same for the same cause
//! at the same place in every capture. Captures of other services in the folder are left out.
//!
//! What it costs: captures are read, the newest first, until `MOST_READ` of them or `MOST_BYTES`
//! are, and none over `LARGEST`: bounds that give the same answer on a slow machine. The number of
//! unread captures is reported.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use capture::read::Capture;
use diagnosis::Diagnosis;
use serde_json::{json, Value};
use trigger::Rules;

use crate::output::columns::{plain, utc};
use crate::read::{captures_in, default_rules, judged_parts};

/// Some 20 ms each.
const MOST_READ: usize = 32;
const MOST_BYTES: u64 = 32 << 20;
const LARGEST: u64 = 16 << 20;
/// Other causes that are shown on the screen.
const MOST: usize = 3;

/// A cause that is the first finding of some of the captures.
struct First {
    fingerprint: String,
    cause: &'static str,
    /// `app.py:31 ask()`, its place.
    place: Option<String>,
    captures: usize,
    pids: BTreeSet<u32>,
    /// When the first and the last slow request with this cause began, Unix epoch.
    first_ns: u64,
    last_ns: u64,
    /// The newest of these captures.
    newest: PathBuf,
}

/// All of these captures.
pub struct Others {
    /// Fingerprint of the first finding in the requested capture.
    main: Option<String>,
    firsts: Vec<First>,
    /// Captures that were read, of the same service.
    read: usize,
    /// How many of these have no cause.
    healthy: usize,
    /// Not read: no time was left, or they are large, or no captures.
    unread: usize,
}

impl Others {
    /// Judges the captures beside `file`, the newest first, by the rules of `slow` or their own.
    pub fn beside(file: &Path, main: &Diagnosis<'_>, slow: Option<&Rules>) -> Others {
        let mut others = Others {
            main: main.findings.first().map(|f| f.fingerprint.clone()),
            firsts: Vec::new(),
            read: 0,
            healthy: 0,
            unread: 0,
        };
        let mut paths = file.parent().map(captures_in).unwrap_or_default();
        paths.sort_unstable();
        let (mut files, mut left) = (0, MOST_BYTES);
        for (_, bytes, path) in paths.into_iter().rev().filter(|(_, _, path)| path != file) {
            // Opening a pipe would block.
            let is_file = std::fs::metadata(&path).is_ok_and(|found| found.is_file());
            let wanted = is_file && files < MOST_READ && bytes <= LARGEST.min(left);
            if wanted {
                files += 1;
                left -= bytes;
            }
            match wanted.then(|| judged_parts(&path, slow, &mut |_, _| ())) {
                Some(Ok(capture)) if capture.meta.service != main.capture.meta.service => (),
                Some(Ok(mut capture)) => {
                    // Native places get their names, and so the same fingerprint, only from the
                    // binaries.
                    let _ = symbols::name_native(&mut capture);
                    others.add(&capture, slow, path);
                }
                Some(Err(_)) | None => others.unread += 1,
            }
        }
        others
    }

    fn add(&mut self, capture: &Capture, slow: Option<&Rules>, path: PathBuf) {
        let own;
        let rules = match slow {
            Some(rules) => rules,
            None => {
                own = default_rules(capture);
                &own
            }
        };
        self.read += 1;
        let diagnosis = diagnosis::diagnose(capture, |name| rules.limit_ns(name));
        let Some(finding) = diagnosis.findings.into_iter().next() else {
            self.healthy += 1;
            return;
        };
        let epoch_ns = |at: Option<&u64>| at.map_or(0, |ns| capture.meta.epoch_ns(*ns));
        let (first_ns, last_ns) =
            (epoch_ns(finding.seen_ns.first()), epoch_ns(finding.seen_ns.last()));
        let known = self.firsts.iter_mut().find(|f| f.fingerprint == finding.fingerprint);
        if let Some(known) = known {
            known.captures += 1;
            known.pids.insert(capture.meta.pid);
            known.first_ns = known.first_ns.min(first_ns);
            known.last_ns = known.last_ns.max(last_ns);
        } else {
            self.firsts.push(First {
                cause: finding.cause.text(),
                place: finding.place.map(|place| place.short()),
                fingerprint: finding.fingerprint,
                captures: 1,
                pids: BTreeSet::from([capture.meta.pid]),
                first_ns,
                last_ns,
                newest: path,
            });
        }
    }

    fn is_main(&self, first: &First) -> bool {
        self.main.as_ref() == Some(&first.fingerprint)
    }

    /// One line, or nothing if there are no others.
    pub fn to_text(&self) -> String {
        let read = self.read;
        let mut parts = Vec::new();
        for first in self.firsts.iter().filter(|first| self.is_main(first)) {
            let same = format!("the same cause comes first in {} of {read}", first.captures);
            parts.push(same + &first.author_and_time());
        }
        let mut rest: Vec<&First> = self.firsts.iter().filter(|f| !self.is_main(f)).collect();
        rest.sort_by_key(|first| std::cmp::Reverse(first.captures));
        for first in rest.iter().take(MOST) {
            let place = first.place.as_ref().map(|place| format!(" at {place}"));
            let (cause, place, count) = (first.cause, place.unwrap_or_default(), first.captures);
            let name = first.newest.file_name().unwrap_or_default().to_string_lossy();
            let when = first.author_and_time();
            parts.push(format!("{cause}{place} in {count} of {read}{when}: {name}"));
        }
        if rest.len() > MOST {
            parts.push(format!(
                "other causes in {}",
                rest[MOST..].iter().map(|f| f.captures).sum::<usize>()
            ));
        }
        if self.healthy > 0 {
            parts.push(format!("no cause in {}", self.healthy));
        }
        if self.unread > 0 {
            parts.push(format!("{} not read", self.unread));
        }
        match parts.is_empty() {
            true => String::new(),
            false => format!("Other captures here: {}.\n", plain(&parts.join("; "))),
        }
    }

    /// For `--json`.
    pub fn to_json(&self) -> Value {
        let first = |f: &First| {
            json!({
                "cause": f.cause,
                "fingerprint": f.fingerprint,
                "same": self.is_main(f),
                "captures": f.captures,
                "pids": f.pids,
                "first_utc": utc(f.first_ns),
                "last_utc": utc(f.last_ns),
                "newest": f.newest.display().to_string(),
            })
        };
        json!({
            "read": self.read,
            "unread": self.unread,
            "without_cause": self.healthy,
            "causes": self.firsts.iter().map(first).collect::<Vec<Value>>(),
        })
    }
}

impl First {
    /// ` (2 processes, 2026-11-24 02:11:04 to 02:55:10 UTC)`.
    fn author_and_time(&self) -> String {
        let processes = match self.pids.len() {
            1 => String::new(),
            n => format!("{n} processes, "),
        };
        let (first, last) = (utc(self.first_ns), utc(self.last_ns));
        let day = first.split(' ').next().unwrap_or_default();
        let last = last.strip_prefix(day).map_or(last.as_str(), str::trim_start);
        match first.ends_with(last) {
            true => format!(" ({processes}{first} UTC)"),
            false => format!(" ({processes}{first} to {last} UTC)"),
        }
    }
}
