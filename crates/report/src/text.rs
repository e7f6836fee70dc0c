//! The verdict on one screen: the answer first, then the chain, then the evidence, then what was
//! missing.

use std::fmt::Write;

use analysis::frames::Place;
use analysis::readable::{counted, ms_text, ns_text, plain, rhythm, thousands};
use analysis::thresholds;
use capture::read::{Capture, MetricRow, SavedFor, Text};
use diagnosis::{Cause, Confidence, Diagnosis, Finding, Suspect};
use format::metric::Numbers;
use format::source::SourceState;

use crate::{metric_series, source_line};

/// The verdict as text, at most a screen.
pub fn to_text(diagnosis: &Diagnosis<'_>) -> String {
    let mut out = String::new();
    headline(&mut out, diagnosis);
    metric_series::report(&mut out, diagnosis.capture);
    for (i, finding) in diagnosis.findings.iter().enumerate() {
        describe(&mut out, diagnosis, i + 1, finding);
    }
    if !diagnosis.findings.is_empty() {
        closing(&mut out, diagnosis);
    }
    failed(&mut out, diagnosis);
    for damage in &diagnosis.capture.damage {
        let _ = writeln!(out, "Note: the capture is damaged: {damage}.");
    }
    out
}

pub(crate) fn headline(out: &mut String, d: &Diagnosis<'_>) {
    let (total, slow) = (thousands(d.total as u64), thousands(d.slow as u64));
    let _ = if d.total == 0 && !d.capture.damage.is_empty() {
        writeln!(out, "No requests in what is left of this damaged capture: nothing can be judged.")
    } else if d.total == 0 {
        let remedy = "Servers that dashcam knows begin them; other code says dashcam.request(NAME)";
        writeln!(out, "No requests in this capture: nothing to judge. {remedy}.")
    } else if d.slow == 0 && d.limits_ns.is_none() {
        writeln!(out, "Nothing to blame: no rule says what is slow ({total} requests).")
    } else if let (0, 1, Some(took_ns)) = (d.slow, d.total, d.typical_ns) {
        let (took, limit) = (ns_text(took_ns), limit(d));
        writeln!(out, "Nothing to blame: the only request took {took}, less than {limit}.")
    } else if d.slow == 0 {
        let (limit, typical) = (limit(d), typical(d));
        writeln!(out, "Nothing to blame: none of {total} requests took over {limit} ({typical}).")
    } else if d.slow == d.total {
        // Nothing to compare with: the excess is their whole time.
        let (limit, worst) = (limit(d), ns_text(d.worst_ns));
        let all =
            if d.slow == 1 { "The only request".into() } else { format!("All {total} requests") };
        let why = "no normal one to compare with, so all of their time counts as excess";
        writeln!(out, "{all} took over {limit} (worst {worst}; {why}).")
    } else {
        let (limit, typical) = (limit(d), typical(d));
        let worst = ns_text(d.worst_ns);
        writeln!(out, "{slow} of {total} requests took over {limit} ({typical}, worst {worst}).")
    };
}

/// `500 ms`; `their limits of 250 ms to 2 s` where rules by name give several.
fn limit(d: &Diagnosis<'_>) -> String {
    match d.limits_ns {
        Some((low, high)) if low < high => {
            format!("their limits of {} to {}", ns_text(low), ns_text(high))
        }
        Some((limit, _)) => ns_text(limit),
        None => ns_text(d.threshold_ns),
    }
}

/// `typical 5.1 ms`.
fn typical(d: &Diagnosis<'_>) -> String {
    d.typical_ns.map_or("no normal request".to_owned(), |ns| format!("typical {}", ns_text(ns)))
}

/// Names of failed requests in a report.
const FAILED_NAMES_MAX: usize = 3;

/// What failed, and that the capture was made for it; what is not known of the rest.
pub(crate) fn failed(out: &mut String, d: &Diagnosis<'_>) {
    if d.failed > 0 {
        let named = d.failures.iter().take(FAILED_NAMES_MAX);
        let named: Vec<String> = named.map(|(name, n)| format!("{} {n}", plain(name))).collect();
        let more = if d.failures.len() > FAILED_NAMES_MAX { " and others" } else { "" };
        let (failed, total) = (thousands(d.failed as u64), thousands(d.total as u64));
        let _ = writeln!(out, "{failed} of {total} requests failed: {}{more}.", named.join(", "));
    }
    if d.capture.meta.saved_for() == SavedFor::Errors {
        let _ = writeln!(out, "The capture was made because of {}.", plain(&d.capture.meta.reason));
    }
    if d.endless > 0 {
        let left = counted(d.endless, "request");
        let _ = writeln!(out, "Left out: {left} whose end is not in the capture.");
    }
    if d.older > 0 {
        let left = counted(d.older, "slow request");
        let _ = writeln!(out, "Left out: {left} older than the time the capture covers.");
    }
    excerpt(out, d);
}

/// What the verdict rests on, if not all of the capture was read.
fn excerpt(out: &mut String, d: &Diagnosis<'_>) {
    let Some(excerpt) = &d.capture.excerpt else { return };
    let (read, all) = (thousands(excerpt.read), thousands(excerpt.all));
    let (slow, normal) = (counted(d.examined.0, "slow request"), thousands(d.examined.1 as u64));
    let _ = writeln!(
        out,
        "The capture is large: {slow} and {normal} normal ones were examined, with {read} of {all} \
         observations of threads."
    );
}

fn describe(out: &mut String, d: &Diagnosis<'_>, rank: usize, f: &Finding) {
    let (cause, share) = (f.cause.text(), f.share * 100.0);
    let _ = writeln!(
        out,
        "{rank}. {cause}: {share:.0} % of the excess, {}. {}{}.",
        f.confidence.text(),
        plain(&f.summary),
        plain(&reached(f))
    );
    for (place, line) in sources(d, f) {
        let _ = writeln!(out, "   {}: {line}", plain(&place));
    }
    let (slow, normal) = (thousands(d.slow as u64), thousands((d.total - d.slow) as u64));
    let _ = writeln!(
        out,
        "   {} of {slow} slow requests, {} of {normal} normal ones{}.",
        f.slow_requests,
        f.normal_requests,
        when(d, f)
    );
    if let Some(places) = elsewhere(f) {
        let _ = writeln!(out, "   {}.", plain(&places));
    }
    for (calls, percent) in &f.passed_in {
        let _ = writeln!(out, "   Seen: {percent:.0} % in {}.", plain(calls));
    }
    if let Some(id) = f.trace_ids.first().filter(|_| f.trace_is_known) {
        let _ = writeln!(out, "   Trace of the slowest: {}.", plain(id));
    }
    for missing in &f.missing {
        let _ = writeln!(out, "   Not certain: {}.", plain(missing));
    }
    if has_advice(f) {
        let _ = writeln!(out, "   Advice: {}", f.advice);
    }
}

/// Characters of a line of source.
const SOURCE_CHARS_MAX: usize = 160;

/// The place of a finding and that of its culprit, each with its line of source, if the capture has
/// it.
pub(crate) fn sources(d: &Diagnosis<'_>, f: &Finding) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for place in [&f.place, &f.culprit].into_iter().flatten() {
        let file = place.file.rsplit('/').next().unwrap_or(&place.file);
        let at = format!("{file}:{}", place.line);
        let Some((line, changed)) = source_line::of(d.capture, Some(place)) else { continue };
        if found.iter().all(|(known, _)| *known != at) {
            let line = source_line::cut(&line, SOURCE_CHARS_MAX);
            found.push((at, line + source_line::note(changed)));
        }
    }
    found
}

/// `Part of this, elsewhere: 22 % at accounts.py:8 balance(), 10 % at ...`; None where all waited
/// at one place.
pub(crate) fn elsewhere(f: &Finding) -> Option<String> {
    let part =
        |(place, share): &(Place, f64)| format!("{:.0} % at {}", share * 100.0, place.short());
    let places: Vec<String> = f.elsewhere.iter().map(part).collect();
    (!places.is_empty()).then(|| format!("Part of this, elsewhere: {}", places.join(", ")))
}

/// Computing at an unknown place cannot be examined further.
pub(crate) fn has_advice(f: &Finding) -> bool {
    !(f.cause == Cause::Unknown || f.cause == Cause::Cpu && f.place.is_none())
}

/// `, reached from GET /checkout > price() > lookup()`; `, in GET /checkout` where nothing lies
/// between.
pub(crate) fn reached(f: &Finding) -> String {
    if matches!(f.cause, Cause::Stopped | Cause::CpuThrottled) {
        return String::new();
    }
    let known = f.called_by_request;
    if f.path.is_empty() {
        return if known { format!(", in {}", f.request) } else { String::new() };
    }
    // A function that calls itself is reported once; two may be two of one name.
    let calls: Vec<String> = f
        .path
        .chunk_by(|a, b| a == b)
        .map(|run| match run.len() {
            1 | 2 => vec![format!("{}()", run[0]); run.len()].join(" > "),
            n => format!("{}() ({n} deep)", run[0]),
        })
        .collect();
    let from = if known { format!("{} > ", f.request) } else { String::new() };
    format!(", reached from {from}{}", calls[calls.len().saturating_sub(5)..].join(" > "))
}

/// `; on 6 threads, every 15-20 s since 10:09:12 UTC`.
pub(crate) fn when(d: &Diagnosis<'_>, f: &Finding) -> String {
    let mut text = match f.threads {
        0 | 1 => String::new(),
        n => format!("; on {n} threads"),
    };
    let Some(first) = f.seen_ns.first() else {
        return text;
    };
    text.push_str(&rhythm(&f.seen_ns));
    let clock = d.capture.meta.epoch_ns(*first) / 1_000_000_000 % 86_400;
    let (h, m, s) = (clock / 3600, clock / 60 % 60, clock % 60);
    let _ = write!(text, "; first at {h:02}:{m:02}:{s:02} UTC");
    text
}

/// The vital that says how long the cgroup was held back.
const THROTTLED: &str = "cgroup_throttled_ns";

pub(crate) fn closing(out: &mut String, d: &Diagnosis<'_>) {
    let found = |suspect: Suspect| d.findings.iter().any(|f| suspect.is(f.cause));
    let rest: Vec<String> = d
        .suspects
        .iter()
        .filter(|(suspect, _)| !found(*suspect))
        .map(|(suspect, ms)| format!("{} {}", suspect.text(), ms_text(*ms)))
        .collect();
    let _ = writeln!(out, "Not the cause, per slow request: {}.", rest.join(", "));
    if d.unexplained_share >= thresholds::reported_part() {
        let _ = writeln!(out, "Unexplained: {:.0} % of the excess.", d.unexplained_share * 100.0);
    }
    // Where all is sure, nothing was missed for it.
    let sure = d.unexplained_share < thresholds::reported_part()
        && d.findings.iter().all(|f| f.confidence == Confidence::Confirmed);
    if let Some((skipped, passes)) = blind_passes(d.capture).filter(|_| !sure) {
        let _ = writeln!(
            out,
            "dashcam's CPU budget was spent: {} of {} passes of its sampler took no sample (a larger \
             budget_percent sees more).",
            thousands(skipped),
            thousands(passes)
        );
    }
    sources_off(out, d);
}

/// The sources that were off, or on in part, where that matters for the verdict.
fn sources_off(out: &mut String, d: &Diagnosis<'_>) {
    // What needs privileges is missed only where something had to be inferred without it.
    let guessed = |f: &Finding| {
        matches!(f.cause, Cause::LockWait | Cause::PoolWait) && f.confidence < Confidence::Confirmed
    };
    let missed = d.findings.iter().any(guessed);
    // Without the cgroup's counters nobody knows whether it was held back; of the others no verdict
    // is made.
    let starved = d.findings.iter().any(|f| f.cause == Cause::CpuStarved);
    let counted = || d.capture.vitals.iter().any(|v| d.capture.name(v.name) == THROTTLED);
    for (name, state, text) in d.capture.meta.source_states() {
        let matters = match name {
            "wakers" => missed,
            "vitals" => starved && !counted(),
            _ => true,
        };
        if matters && state != SourceState::On {
            let _ = writeln!(out, "Source {name} was {text}.");
        }
    }
}

/// Passes of the sampler that sampled nothing since the budget was spent, and all, in the time of
/// the capture; none where these are few.
fn blind_passes(capture: &Capture) -> Option<(u64, u64)> {
    let sum = |name: &str, what: Option<&str>| -> f64 {
        let is = |row: &&MetricRow| {
            let tagged = |value: &str| row.tags.iter().any(|(_, text)| is_text(text, value));
            capture.name(row.name) == name && what.is_none_or(tagged)
        };
        let counts = capture.metrics.iter().filter(is).map(|row| match row.numbers {
            Numbers::Count(n) => n,
            _ => 0.0,
        });
        counts.sum()
    };
    let passes = sum("dashcam.sampler.passes", None);
    let skipped = sum("dashcam.losses", Some("passes_skipped"));
    (skipped > thresholds::small_part() * passes).then_some((skipped as u64, passes as u64))
}

fn is_text(text: &Text, wanted: &str) -> bool {
    matches!(text, Text::Text(text) if text == wanted)
}
