//! What `dashcam why --explain` prints below the verdict: short lines, the decision first.
//!
//! Of a finding's first example everything is shown, of the others their intervals; the rest, and
//! all of it as data, is in `--json`.

use std::fmt::Write;

use analysis::frames::Place;
use analysis::readable::{counted, ns_text, offset_text, thousands};
use analysis::timeline::State;
use analysis::unit::Unit;
use capture::read::Capture;
use diagnosis::explain::{
    BlockerPart, Candidate, Check, Comparison, Example, Explanation, Fact, Fate, Interval, Subject,
    Threshold,
};
use diagnosis::Diagnosis;
use format::wait::WaitKind;

/// Why each finding says what it says; empty where there is none, or nobody asked.
pub fn to_explanation(diagnosis: &Diagnosis<'_>) -> String {
    let mut out = String::new();
    for (i, finding) in diagnosis.findings.iter().enumerate() {
        if let Some(explanation) = &finding.explanation {
            let (rank, cause) = (i + 1, finding.cause.text());
            let confidence = finding.confidence.text();
            // A String takes everything.
            let _ = writeln!(out, "\nWhy {rank}. {cause}, {confidence}:");
            Shown { capture: diagnosis.capture, out: &mut out }.explanation(explanation);
        }
    }
    out
}

struct Shown<'a> {
    capture: &'a Capture,
    out: &'a mut String,
}

impl Shown<'_> {
    fn line(&mut self, indent: usize, text: &str) {
        let _ = writeln!(self.out, "{:indent$}{text}", "");
    }

    fn explanation(&mut self, e: &Explanation) {
        for (i, example) in e.requests.iter().enumerate() {
            self.example(example, i == 0);
        }
        if e.more_requests > 0 {
            self.line(3, &format!("and {}.", counted(e.more_requests, "more request")));
        }
        for comparison in &e.comparisons {
            self.comparison(3, comparison);
        }
        let rules = e.rules.iter().map(|(rule, part)| format!("{rule} {:.0} %", part * 100.0));
        self.line(3, &format!("Rules: {}.", rules.collect::<Vec<_>>().join(", ")));
        if !e.blockers.is_empty() {
            let blockers: Vec<String> = e.blockers.iter().map(|b| self.blocker(b)).collect();
            let more = more(e.more_blockers);
            self.line(3, &format!("Blockers: {}{more}.", blockers.join("; ")));
        }
        let failed: Vec<String> = e.checks.iter().filter(|c| !c.passed).map(check).collect();
        let passed = e.checks.len() - failed.len();
        match failed.is_empty() {
            true => self.line(3, &format!("Confidence: all {passed} checks passed.")),
            false => self.line(3, &format!("Confidence lowered by {}.", failed.join(", "))),
        }
        let thresholds: Vec<String> = e.thresholds().iter().map(threshold).collect();
        if !thresholds.is_empty() {
            self.line(3, &format!("Thresholds: {}.", thresholds.join(", ")));
        }
    }

    fn example(&mut self, example: &Example, whole: bool) {
        let (id, name, took) = (example.id, &example.name, ns_text(example.ns));
        let thread = self.thread(example.tid);
        self.line(3, &format!("Request {id} {name}, {took}, on {thread}:"));
        for interval in &example.intervals {
            let text = self.interval(interval, example.tid);
            self.line(5, &text);
            if whole {
                for comparison in &interval.comparisons {
                    self.comparison(8, comparison);
                }
            }
        }
        let (count, ns) = example.more;
        if count > 0 {
            let intervals = counted(count, "more interval");
            self.line(5, &format!("and {intervals}, {} in all.", ns_text(ns)));
        }
    }

    /// `+0.1 to +812 ms: waited (futex) at app.py:19 rate(), exact, rule lock-wait`.
    fn interval(&self, interval: &Interval, own: u32) -> String {
        let at = |ns: u64| offset_text(ns as f64 / 1e6);
        let (from, to) = (at(interval.from_ns), at(interval.to_ns));
        let mut text = format!("+{from} to +{to}: {}", state(interval));
        if let Some(resource) = &interval.resource {
            let _ = write!(text, " for {resource}");
        }
        if let Some(place) = &interval.place {
            let _ = write!(text, " at {}", place.short());
        }
        if interval.tid != own {
            let _ = write!(text, ", on {}", self.thread(interval.tid));
        }
        let exact = if interval.exact { "exact" } else { "estimate" };
        let seen = if interval.seen { "" } else { ", no sample" };
        let _ = write!(text, "; {exact}{seen}; rule {}", interval.rule);
        if let Some((by, tid, place)) = &interval.blocker {
            let (by, blocker) = (by.id(), self.subject(&Subject::Thread(*tid), place.as_ref()));
            let _ = write!(text, "; blocker {blocker}, by {by}");
        }
        text
    }

    fn comparison(&mut self, indent: usize, comparison: &Comparison) {
        let times = match comparison.times {
            1 => String::new(),
            n => format!(", {} times", thousands(n as u64)),
        };
        let waiter = self.thread(comparison.waiter);
        let by = comparison.by.id();
        self.line(indent, &format!("{by} for {waiter}{times}:"));
        for candidate in &comparison.candidates {
            let text = self.candidate(candidate, comparison.times);
            self.line(indent + 2, &text);
        }
        if comparison.more > 0 {
            let more = counted(comparison.more, "more candidate");
            self.line(indent + 2, &format!("and {more}"));
        }
    }

    /// `won      thread rates (9) at app.py:15 fetch_rates(): 8 of 8 samples; weight 1.00`.
    fn candidate(&self, candidate: &Candidate, times: usize) -> String {
        let mut text = match candidate.fate {
            Fate::Won if times > 1 => format!("won {}  ", thousands(candidate.won as u64)),
            Fate::Won => "won  ".to_owned(),
            Fate::Dropped(_) => "lost ".to_owned(),
        };
        text.push_str(&self.subject(&candidate.subject, candidate.place.as_ref()));
        let facts: Vec<String> = candidate.evidence.iter().map(fact).collect();
        if !facts.is_empty() {
            let _ = write!(text, ": {}", facts.join(", "));
        }
        if let Some(weight) = candidate.weight {
            let _ = write!(text, "; weight {weight:.2}");
        }
        if let Fate::Dropped(why) = candidate.fate {
            let _ = write!(text, "; {}", why.id());
        }
        text
    }

    fn blocker(&self, blocker: &BlockerPart) -> String {
        let part = blocker.part * 100.0;
        match blocker.named {
            None => format!("{part:.0} % nobody known"),
            Some((by, tid)) => {
                let blocker = self.subject(&Subject::Thread(tid), blocker.place.as_ref());
                format!("{part:.0} % {blocker}, by {}", by.id())
            }
        }
    }

    fn subject(&self, one: &Subject, place: Option<&Place>) -> String {
        let at = place.map_or_else(String::new, |place| format!(" at {}", place.short()));
        match one {
            Subject::Thread(tid) => format!("{}{at}", self.thread(*tid)),
            Subject::Task(id) => format!("task {id:x}{at}"),
            Subject::Code => format!("code{at}"),
            Subject::Cause(cause) => cause.text().to_owned(),
            Subject::Nobody => "no thread of this process".to_owned(),
        }
    }

    fn thread(&self, tid: u32) -> String {
        match self.capture.thread_name(tid) {
            Some(name) => format!("thread {name} ({tid})"),
            None => format!("thread {tid}"),
        }
    }
}

fn state(interval: &Interval) -> String {
    match interval.state {
        State::Run => "on CPU".to_owned(),
        State::Ready => "runnable, no CPU".to_owned(),
        State::Wait if interval.wait == WaitKind::Unknown.text() => "waited".to_owned(),
        State::Wait => format!("waited ({})", interval.wait),
        State::Unknown => "not recorded".to_owned(),
    }
}

fn fact(fact: &Fact) -> String {
    match fact {
        Fact::Samples(n, of) => {
            format!("{} of {} samples", thousands(*n), thousands(*of))
        }
        Fact::Time(ns, of) => format!("{} of {}", ns_text(*ns), ns_text(*of)),
        Fact::BeforeEnd(ns) => format!("ran until {} before the end", ns_text(*ns)),
        Fact::Chance(chance) => format!("chance {chance:.1e}"),
        Fact::SharesCode => "shares code".to_owned(),
        Fact::Releases => "releases a lock".to_owned(),
        Fact::Named(by, weight) => format!("{}, likelihood ratio {weight}", by.id()),
    }
}

fn check(check: &Check) -> String {
    let (name, limit) = (check.threshold.name, check.threshold.value);
    format!("{name} {limit:.2} (found {:.2})", check.value)
}

fn threshold(t: &Threshold) -> String {
    match t.unit {
        Unit::Part => format!("{} {:.3}", t.name, t.value),
        Unit::Count => format!("{} {:.0}", t.name, t.value),
        unit => format!("{} {} {}", t.name, t.value, unit.text()),
    }
}

fn more(count: usize) -> String {
    match count {
        0 => String::new(),
        n => format!("; and {} more", thousands(n as u64)),
    }
}
