//! The verdict on one screen: the answer first, then the chain, then the evidence, then what was
//! missing.

use std::fmt::Write;

use crate::causes::{ms_text, thousands, Cause};
use crate::finding::{ns_text, Diagnosis, Finding};

/// The verdict as text, at most a screen.
pub fn to_text(diagnosis: &Diagnosis<'_>) -> String {
    let mut out = String::new();
    headline(&mut out, diagnosis);
    for (i, finding) in diagnosis.findings.iter().enumerate() {
        describe(&mut out, diagnosis, i + 1, finding);
    }
    if !diagnosis.findings.is_empty() {
        closing(&mut out, diagnosis);
    }
    for damage in &diagnosis.capture.damage {
        let _ = writeln!(out, "Note: the capture is damaged: {damage}.");
    }
    out
}

pub(crate) fn headline(out: &mut String, d: &Diagnosis<'_>) {
    let (total, slow) = (thousands(d.total as u64), thousands(d.slow as u64));
    let _ = if d.total == 0 {
        writeln!(out, "No requests in this capture: nothing to judge.")
    } else if d.slow == 0 && d.threshold_ns == u64::MAX {
        writeln!(out, "Nothing to blame: no rule says what is slow ({total} requests).")
    } else if d.slow == 0 {
        let (limit, typical) = (ns_text(d.threshold_ns), ns_text(d.typical_ns));
        writeln!(
            out,
            "Nothing to blame: none of {total} requests took over {limit} (typical {typical})."
        )
    } else if d.slow == d.total {
        // Nothing to compare with: the excess is their whole time.
        let (limit, worst) = (ns_text(d.threshold_ns), ns_text(d.worst_ns));
        let all =
            if d.slow == 1 { "The only request".into() } else { format!("All {total} requests") };
        let why = "no normal one to compare with, so all of their time counts as excess";
        writeln!(out, "{all} took over {limit} (worst {worst}; {why}).")
    } else {
        let (limit, typical) = (ns_text(d.threshold_ns), ns_text(d.typical_ns));
        let worst = ns_text(d.worst_ns);
        writeln!(
            out,
            "{slow} of {total} requests took over {limit} (typical {typical}, worst {worst})."
        )
    };
}

fn describe(out: &mut String, d: &Diagnosis<'_>, rank: usize, f: &Finding) {
    let (cause, share) = (f.cause.text(), f.share * 100.0);
    let _ = writeln!(
        out,
        "{rank}. {cause}: {share:.0} % of the excess, {}. {}{}.",
        f.confidence.text(),
        f.summary,
        reached(f)
    );
    let (slow, normal) = (thousands(d.slow as u64), thousands((d.total - d.slow) as u64));
    let _ = writeln!(
        out,
        "   {} of {slow} slow requests, {} of {normal} normal ones{}.",
        f.slow_requests,
        f.normal_requests,
        when(d, f)
    );
    for missing in &f.missing {
        let _ = writeln!(out, "   Not certain: {missing}.");
    }
    if has_advice(f) {
        let _ = writeln!(out, "   Advice: {}", f.advice);
    }
}

/// What was computed where nobody knows cannot be looked into.
pub(crate) fn has_advice(f: &Finding) -> bool {
    !(f.cause == Cause::Unknown || f.cause == Cause::Cpu && f.place.is_none())
}

/// `, reached from GET /checkout > price() > lookup()`.
pub(crate) fn reached(f: &Finding) -> String {
    if f.path.is_empty() || matches!(f.cause, Cause::Stopped | Cause::CpuThrottled) {
        return String::new();
    }
    let shown = &f.path[f.path.len().saturating_sub(5)..];
    let calls: Vec<String> = shown.iter().map(|name| format!("{name}()")).collect();
    format!(", reached from {} > {}", f.request, calls.join(" > "))
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

/// Requests that began this near to each other belong to one burst.
const BURST_NS: u64 = 500_000_000;

/// `; in 4 bursts, 1.5-2.1 s apart`, `; all within 0.2 s`, `; over 7.9 s`; nothing of one request.
fn rhythm(seen_ns: &[u64]) -> String {
    let (Some(first), Some(last), true) = (seen_ns.first(), seen_ns.last(), seen_ns.len() > 1)
    else {
        return String::new();
    };
    let seconds = |ns: u64| ns as f64 / 1e9;
    let mut gaps: Vec<u64> = Vec::new();
    let (mut burst, mut alone) = (*first, true);
    for pair in seen_ns.windows(2) {
        if pair[1] - pair[0] > BURST_NS {
            gaps.push(pair[1] - burst);
            burst = pair[1];
        } else {
            alone = false;
        }
    }
    match (gaps.iter().min(), gaps.iter().max()) {
        (Some(low), Some(high)) if gaps.len() >= 2 => {
            let bursts = gaps.len() + 1;
            let (low, high) = (format!("{:.1}", seconds(*low)), format!("{:.1}", seconds(*high)));
            let apart = if low == high { low } else { format!("{low}-{high}") };
            match alone {
                true => format!("; every {apart} s"),
                false => format!("; in {bursts} bursts, {apart} s apart"),
            }
        }
        _ if last - first <= BURST_NS => "; all within half a second".to_owned(),
        _ => format!("; over {:.1} s", seconds(last - first)),
    }
}

pub(crate) fn closing(out: &mut String, d: &Diagnosis<'_>) {
    let found = |words: &str| {
        d.findings.iter().any(|f| {
            matches!(
                (words, f.cause),
                ("run delay", Cause::CpuStarved | Cause::CpuThrottled)
                    | ("GC", Cause::GcPause)
                    | ("GIL", Cause::GilWait)
                    | ("locks", Cause::LockWait)
            )
        })
    };
    let rest: Vec<String> = d
        .suspects
        .iter()
        .filter(|(words, _)| !found(words))
        .map(|(words, ms)| format!("{words} {}", ms_text(*ms)))
        .collect();
    let _ = writeln!(out, "Otherwise, per slow request: {}.", rest.join(", "));
    if d.unexplained_share >= 0.05 {
        let _ = writeln!(out, "Unexplained: {:.0} % of the excess.", d.unexplained_share * 100.0);
    }
    let off = d.capture.meta.sources.iter().filter(|(_, state)| state != "on");
    for (name, state) in off {
        let _ = writeln!(out, "Source {name} was {state}.");
    }
}
