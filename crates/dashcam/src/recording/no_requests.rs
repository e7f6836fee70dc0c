//! A process that works and begins no request: nothing of it can be judged, so it is reported.
//!
//! How it works: `dashcam-capture` calls `judge` in each of its rounds, which does something 10 s
//! after the start and once a minute after that, until the first request begins:
//!
//! ```text
//!   0 s       10 s                       70 s                       130 s
//!   | starts  | another program below    | the same; CPU time of    | ...
//!   |         | this one listens?        | this minute; listens?    |
//! ```
//!
//! A process below this one that records itself judges itself: then its parent (a master of
//! workers, a reloader) is not judged. A server whose integration is in place is only reported if a
//! client is connected: without one there was perhaps none.
//!
//! What it promises: one line a recording; none once a request has begun. The text stays in
//! `status` and `ps` until then. Missing on purpose: the first 10 s, in which programs import
//! modules, and what a process does that was idle.

use std::sync::Mutex;

use sys::serving::Below;

use crate::lock::lock;

/// Imports take CPU time until then.
const SETTLE_NS: u64 = 10_000_000_000;
const MINUTE_NS: u64 = 60_000_000_000;
/// CPU time in a minute of a process that works: 1.7 % of a core. Idle event loops, workers that
/// wait for a queue, and heartbeats need less.
const WORK_NS: u64 = 1_000_000_000;

/// What a process is asked, at most once a minute.
pub(crate) trait Process {
    /// CPU time so far, without the sampler's.
    fn cpu_ns(&self) -> u64;
    /// Where it listens.
    fn listens(&self) -> Option<String>;
    /// Whether a client is connected to that address now.
    fn has_clients(&self, address: &str) -> bool;
    /// The processes below it.
    fn below(&self) -> Vec<Below>;
}

/// Why there is no request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// Another program serves.
    Child(Below),
    /// It worked: with this CPU time in a minute, or an address where it listens.
    Works { cpu_ns: u64, listens: Option<String> },
}

/// What was judged so far.
#[derive(Default)]
pub(crate) struct NoRequests {
    /// When it is judged next; 0: not known yet.
    next_ns: u64,
    /// CPU time at the begin of this minute; None: before the first one.
    cpu_ns: Option<u64>,
    is_over: bool,
}

impl NoRequests {
    /// What is found now, if it is time. `begun`: requests so far. `is_served`: an integration that
    /// begins requests is in place.
    pub(crate) fn judge(
        &mut self,
        now_ns: u64,
        begun: u64,
        is_served: bool,
        process: &impl Process,
    ) -> Option<Finding> {
        if self.is_over || begun > 0 {
            self.is_over = true;
            return None;
        }
        if self.next_ns == 0 {
            self.next_ns = now_ns + SETTLE_NS;
        }
        if now_ns < self.next_ns {
            return None;
        }
        self.next_ns = now_ns + MINUTE_NS;
        let cpu_ns = process.cpu_ns();
        let before_ns = self.cpu_ns.replace(cpu_ns);
        let below = process.below();
        if below.iter().any(|one| one.is_recorded) {
            return None;
        }
        let serves = |one: &Below| one.is_python && !one.is_same && one.listens.is_some();
        let found = match (below.into_iter().find(serves), before_ns) {
            (Some(child), _) => Some(Finding::Child(child)),
            (None, None) => None,
            (None, Some(before_ns)) => works(cpu_ns.saturating_sub(before_ns), is_served, process),
        };
        self.is_over = found.is_some();
        found
    }

    /// While nothing is recorded, nothing is judged.
    pub(crate) fn pause(&mut self) {
        (self.next_ns, self.cpu_ns) = (0, None);
    }
}

fn works(cpu_ns: u64, is_served: bool, process: &impl Process) -> Option<Finding> {
    let has_worked = cpu_ns >= WORK_NS;
    if !has_worked && is_served {
        return None;
    }
    let listens = process.listens();
    let is_at_work = match &listens {
        Some(address) => !is_served || process.has_clients(address),
        None => has_worked,
    };
    is_at_work.then_some(Finding::Works { cpu_ns, listens })
}

/// What a line can name.
pub(crate) struct Names<'a> {
    /// The program is Python's.
    pub is_python: bool,
    /// Integrations that begin requests: those in place, and all.
    pub in_place: &'a [String],
    pub known: &'a [String],
}

/// The line for a finding.
pub(crate) fn line(finding: &Finding, names: &Names<'_>) -> String {
    match finding {
        Finding::Child(child) => of_child(child),
        Finding::Works { cpu_ns, listens } => {
            let what = match (listens, *cpu_ns >= WORK_NS) {
                (Some(address), _) => format!("listens on {address}"),
                (None, _) => format!("used {} s of CPU time in a minute", cpu_ns / 1_000_000_000),
            };
            format!(
                "no request has begun, so nothing can be judged as slow: this process {what}{}",
                remedy(names)
            )
        }
    }
}

fn of_child(child: &Below) -> String {
    let address = child.listens.as_deref().unwrap_or("?");
    let remedy = match child.is_in_the_run {
        true => {
            format!("start with DASHCAM_CHILDREN=on, or `dashcam attach {} --tree` now", child.pid)
        }
        false => format!("`dashcam attach {} --tree` records it", child.pid),
    };
    format!(
        "no request has begun: the server is another program below this one, which is not \
         recorded: {} (process {}) listens on {address}; {remedy}",
        child.name, child.pid
    )
}

fn remedy(names: &Names<'_>) -> String {
    if !names.is_python {
        return "; mark a unit of its work as a request (docs/guide/rust.md, docs/guide/c.md)"
            .to_owned();
    }
    const MARK: &str = "put @dashcam.request on the function that does one unit of its work \
                        (docs/integrations.md)";
    match names.in_place.is_empty() {
        true => format!(
            ", and no integration knows its server or worker (known: {}); {MARK}",
            names.known.join(", ")
        ),
        false => format!(
            ", and none came by the integrations in place ({}); {MARK}",
            names.in_place.join(", ")
        ),
    }
}

/// The line, for `status` and `ps`; empty: there is nothing to say.
#[derive(Default)]
pub(crate) struct Notice(Mutex<String>);

impl Notice {
    pub(crate) fn set(&self, text: String) {
        *lock(&self.0) = text;
    }

    /// The text, while no request has begun.
    pub(crate) fn text(&self, begun: u64) -> String {
        match begun {
            0 => lock(&self.0).clone(),
            _ => String::new(),
        }
    }
}

#[cfg(test)]
#[allow(clippy::expect_used)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    #[derive(Default)]
    struct Played {
        cpu_ns: Cell<u64>,
        listens: Cell<bool>,
        has_clients: Cell<bool>,
        below: RefCell<Vec<Below>>,
        asked: Cell<u32>,
    }

    impl Process for Played {
        fn cpu_ns(&self) -> u64 {
            self.asked.set(self.asked.get() + 1);
            self.cpu_ns.get()
        }

        fn listens(&self) -> Option<String> {
            self.listens.get().then(|| "127.0.0.1:80".to_owned())
        }

        fn has_clients(&self, address: &str) -> bool {
            address == "127.0.0.1:80" && self.has_clients.get()
        }

        fn below(&self) -> Vec<Below> {
            self.below.borrow().clone()
        }
    }

    const S: u64 = 1_000_000_000;

    fn child() -> Below {
        Below {
            pid: 9,
            name: "python3 uvicorn".to_owned(),
            is_python: true,
            is_same: false,
            is_recorded: false,
            is_in_the_run: true,
            listens: Some("127.0.0.1:5000".to_owned()),
        }
    }

    /// The findings of 300 seconds, with the second of each. `each`: what happens in a second.
    fn findings(
        process: &Played,
        begun: impl Fn(u64) -> u64,
        is_served: bool,
        each: impl Fn(u64, &Played),
    ) -> Vec<(u64, Finding)> {
        let (mut judged, mut found) = (NoRequests::default(), Vec::new());
        for second in 0..300 {
            each(second, process);
            let now = judged.judge((second + 5) * S, begun(second), is_served, process);
            found.extend(now.map(|finding| (second, finding)));
        }
        found
    }

    #[test]
    fn work_without_a_request_is_reported_once_after_a_minute() {
        let process = Played::default();
        let works = |_, process: &Played| process.cpu_ns.set(process.cpu_ns.get() + S / 50);
        let found = findings(&process, |_| 0, true, works);
        assert_eq!(found, [(70, Finding::Works { cpu_ns: S / 50 * 60, listens: None })]);
        // Less work than that, and imports alone, are nothing.
        let idles = |_, process: &Played| process.cpu_ns.set(process.cpu_ns.get() + S / 70);
        assert_eq!(findings(&Played::default(), |_| 0, false, idles), []);
        let imports = |s, process: &Played| process.cpu_ns.set(S * u64::min(s, 9));
        assert_eq!(findings(&Played::default(), |_| 0, false, imports), []);
    }

    #[test]
    fn a_listener_without_an_integration_is_reported_and_one_with_it_waits_for_its_first_client() {
        let process = Played::default();
        process.listens.set(true);
        let listens = Some("127.0.0.1:80".to_owned());
        let wanted = [(70, Finding::Works { cpu_ns: 0, listens })];
        assert_eq!(findings(&process, |_| 0, false, |_, _| ()), wanted);
        assert_eq!(findings(&process, |_| 0, true, |_, _| ()), []);
        // A reloader that watches files needs CPU time, too.
        let works = |_, process: &Played| process.cpu_ns.set(process.cpu_ns.get() + S);
        assert_eq!(findings(&process, |_| 0, true, works), []);
        process.has_clients.set(true);
        let found = findings(&process, |_| 0, true, works);
        assert!(matches!(found.as_slice(), [(70, Finding::Works { .. })]), "{found:?}");
    }

    #[test]
    fn after_the_first_request_nothing_is_asked_any_more() {
        let process = Played::default();
        let works = |_, process: &Played| process.cpu_ns.set(process.cpu_ns.get() + S);
        assert_eq!(findings(&process, |second| u64::from(second > 20), false, works), []);
        assert_eq!(process.asked.get(), 1, "at 10 s");
    }

    #[test]
    fn another_python_that_listens_below_is_named_as_soon_as_it_does() {
        let process = Played::default();
        let starts = |second, process: &Played| {
            if second == 5 {
                process.below.borrow_mut().push(child());
            }
        };
        assert_eq!(findings(&process, |_| 0, true, starts), [(10, Finding::Child(child()))]);
        let others = [
            Below { is_python: false, ..child() },
            Below { listens: None, ..child() },
            Below { is_same: true, ..child() },
        ];
        for other in others {
            let process = Played::default();
            process.below.borrow_mut().push(other);
            assert_eq!(findings(&process, |_| 0, true, |_, _| ()), []);
        }
    }

    #[test]
    fn a_master_whose_workers_record_is_not_judged() {
        let process = Played::default();
        process.listens.set(true);
        process.below.borrow_mut().push(Below { is_recorded: true, is_same: true, ..child() });
        let works = |_, process: &Played| process.cpu_ns.set(process.cpu_ns.get() + S);
        assert_eq!(findings(&process, |_| 0, false, works), []);
    }

    #[test]
    fn time_while_recording_is_off_does_not_count() {
        let (process, mut judged) = (Played::default(), NoRequests::default());
        process.listens.set(true);
        for second in 0..300 {
            judged.pause();
            assert_eq!(judged.judge((second + 5) * S, 0, false, &process), None);
        }
    }

    #[test]
    fn a_line_says_what_was_found_and_what_to_do() {
        let known = ["Celery".to_owned(), "gRPC".to_owned()];
        let python = Names { is_python: true, in_place: &[], known: &known };
        let listens = Some("127.0.0.1:80".to_owned());
        let works = Finding::Works { cpu_ns: 9 * S, listens };
        assert_eq!(
            line(&works, &python),
            "no request has begun, so nothing can be judged as slow: this process listens on \
             127.0.0.1:80, and no integration knows its server or worker (known: Celery, gRPC); \
             put @dashcam.request on the function that does one unit of its work \
             (docs/integrations.md)"
        );
        let computes = Finding::Works { cpu_ns: 9 * S, listens: None };
        let in_place = Names { in_place: &known[..1], ..python };
        let text = line(&computes, &in_place);
        assert!(text.contains("this process used 9 s of CPU time in a minute, and none"), "{text}");
        assert!(text.contains("by the integrations in place (Celery); put"), "{text}");
        let native = Names { is_python: false, in_place: &[], known: &[] };
        assert!(line(&computes, &native).contains("docs/guide/rust.md"));
        assert_eq!(
            line(&Finding::Child(child()), &python),
            "no request has begun: the server is another program below this one, which is not \
             recorded: python3 uvicorn (process 9) listens on 127.0.0.1:5000; start with \
             DASHCAM_CHILDREN=on, or `dashcam attach 9 --tree` now"
        );
        let outside = Finding::Child(Below { is_in_the_run: false, ..child() });
        assert!(line(&outside, &python).ends_with("; `dashcam attach 9 --tree` records it"));
    }

    #[test]
    fn the_notice_is_gone_with_the_first_request() {
        let notice = Notice::default();
        notice.set("no request".to_owned());
        assert_eq!((notice.text(0).as_str(), notice.text(1).as_str()), ("no request", ""));
    }
}
