//! `why` at a terminal: whose capture was judged.
//!
//! What it promises: nothing of it is written into a pipe or a file. The age is that of the
//! capture's last instant by this machine's clock.

use std::fs;
use std::path::Path;

use capture::read::Meta;

use crate::output::columns::{age, now_ns, plain};
use crate::processes::live::{recorded, Recorded};

/// One line: the file, its age, its process and what became of that. A second one if the service
/// was started anew since.
pub fn origin(file: &Path, meta: &Meta) -> String {
    let now_ns = now_ns();
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

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

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
