//! `why` at a terminal: how wide it is, whether it shows colours, and whose capture was judged.
//!
//! What it promises: nothing of it is written into a pipe or a file. The age is that of the
//! capture's last instant by this machine's clock.

use std::fs;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anstream::{AutoStream, ColorChoice};
use capture::read::Meta;
use diagnosis::Screen;

use crate::columns::plain;
use crate::live::{recorded, Recorded};

/// Longer lines are hard to read, however wide the terminal is.
const WIDEST: usize = 110;
/// Without a size of its own.
const USUAL: usize = 80;
const SECOND_NS: u64 = 1_000_000_000;

/// What stdout is like, if it is a terminal. Colours follow NO_COLOR, CLICOLOR and TERM.
pub fn terminal() -> Option<Screen> {
    let stdout = io::stdout();
    stdout.is_terminal().then(|| Screen {
        columns: terminal_size::terminal_size()
            .map_or(USUAL, |(w, _)| usize::from(w.0))
            .min(WIDEST),
        colour: AutoStream::choice(&stdout) != ColorChoice::Never,
    })
}

/// One line: the file, its age, its process and what became of that. A second one if the service
/// was started anew since.
pub fn origin(file: &Path, meta: &Meta) -> String {
    let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
    let here = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let processes = if here.trim() == meta.host { Some(recorded()) } else { None };
    described(file, meta, now_ns, processes.as_deref())
}

/// `processes`: the recorded ones of the capture's host; None if that is not this one.
fn described(file: &Path, meta: &Meta, now_ns: u64, processes: Option<&[Recorded]>) -> String {
    let saved_ns = meta.epoch_ns(meta.to_ns);
    let old = age(now_ns.saturating_sub(saved_ns));
    let Some(processes) = processes else {
        let (service, host) = (plain(&meta.service), plain(&meta.host));
        return format!(
            "{}, {old} old: {service}, process {} of {host}\n",
            file.display(),
            meta.pid
        );
    };
    // A later process may have the same number.
    let same = |p: &&Recorded| p.pid == meta.pid && p.since_epoch_ns <= saved_ns;
    let state =
        if processes.iter().any(|p| same(&p)) { "still recorded" } else { "no longer recorded" };
    let (service, pid) = (plain(&meta.service), meta.pid);
    let mut text = format!("{}, {old} old: {service}, process {pid}, {state}\n", file.display());
    let anew =
        processes.iter().filter(|p| p.service == meta.service && p.since_epoch_ns > saved_ns);
    if let Some(first) = anew.min_by_key(|p| p.since_epoch_ns) {
        let since = age(now_ns.saturating_sub(first.since_epoch_ns));
        text += &format!(
            "Note: {service} was started anew {since} ago (process {}): this capture is older.\n",
            first.pid
        );
    }
    text
}

/// `40 s`, `3 min`, `5 h`, `2 days`.
fn age(ns: u64) -> String {
    let seconds = ns / SECOND_NS;
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds / 60),
        7_200..=172_799 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta() -> Meta {
        Meta {
            service: "billy".into(),
            host: "web-3".into(),
            pid: 7,
            to_ns: 5 * SECOND_NS,
            ..Meta::default()
        }
    }

    fn process(pid: u32, since_s: u64) -> Recorded {
        Recorded { pid, service: "billy".into(), since_epoch_ns: since_s * SECOND_NS }
    }

    fn text(processes: Option<&[Recorded]>) -> String {
        described(Path::new("x.dashcam"), &meta(), 305 * SECOND_NS, processes)
    }

    #[test]
    fn a_process_that_runs_is_not_taken_for_a_later_one_of_its_number() {
        assert_eq!(
            text(Some(&[process(7, 1)])),
            "x.dashcam, 5 min old: billy, process 7, still recorded\n"
        );
        let later = text(Some(&[process(7, 95)]));
        assert!(
            later.starts_with("x.dashcam, 5 min old: billy, process 7, no longer recorded\n"),
            "{later}"
        );
        assert!(later.contains("started anew 3 min ago (process 7)"), "{later}");
    }

    #[test]
    fn of_another_host_nothing_is_known_but_its_name() {
        assert_eq!(text(None), "x.dashcam, 5 min old: billy, process 7 of web-3\n");
    }
}
