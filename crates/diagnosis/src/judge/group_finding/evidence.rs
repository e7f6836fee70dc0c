//! The numbers that are reported beside a finding.

use std::collections::BTreeMap;

use analysis::frames::Place;
use analysis::thresholds;
use analysis::timeline::State;
use analysis::waits::merged_by_request;
use format::usage::Usage;

use crate::cause::Cause;
use crate::causes::rule::Repeats;
use crate::claim::Weighed;
use crate::ended_by::several_waits::inside_during;
use crate::facts::kernel_time;
use crate::finding::{Evidence, Unit};
use crate::groups::Group;
use crate::judge::material::Material;
use crate::reported::{running_task, waiters, wakeups};

pub(super) fn evidence(
    judge: &Material<'_, '_>,
    group: &Group<'_>,
    mean_ns: f64,
    repeats: Option<&Repeats>,
    elsewhere: &[(Place, f64)],
    passed_in: &[(String, f64)],
) -> Vec<Evidence> {
    let seen = group.slices.iter().filter(|p| p.slice.claim.seen).count();
    let number = |what: &str, value: f64, unit| Evidence { what: what.to_owned(), value, unit };
    let waits = merged_by_request(group.slices.iter().map(Weighed::part));
    let longest = waits.iter().map(|(_, wait)| wait.ns()).max();
    let round = |ns: f64| (ns / 1e4).round() / 100.0;
    let mut out = vec![
        number("mean time in a slow request", round(mean_ns), Unit::Ms),
        number("longest single interval", round(longest.unwrap_or(0) as f64), Unit::Ms),
        number("intervals", group.slices.len() as f64, Unit::Count),
        number("intervals seen by a sample or callback", seen as f64, Unit::Count),
    ];
    let exact = group.slices.iter().filter(|p| p.slice.segment.exact).count();
    if exact > 0 {
        let what = "intervals with exact begin and end from switch records";
        out.push(number(what, exact as f64, Unit::Count));
    }
    let suspended = group.slices.iter().filter(|p| p.slice.claim.suspended).count();
    if suspended > 0 {
        let what = "intervals with exact begin and end from the interpreter";
        out.push(number(what, suspended as f64, Unit::Count));
    }
    if let Some(used) = usage(judge, group) {
        let share = (100.0 * share_of_kernel(used)).round();
        out.push(number(
            "kernel's share of the CPU time around the longest interval",
            share,
            Unit::Percent,
        ));
        out.push(number("page faults then", f64::from(used.faults), Unit::Count));
        out.push(number("storage traffic then", f64::from(used.storage_kib), Unit::KiB));
    }
    for (place, part) in elsewhere {
        let what = format!("part of all excess that was waited at {}", place.short());
        out.push(number(&what, (100.0 * part).round(), Unit::Percent));
    }
    out.extend(wakeups::evidence(judge.cx, group));
    out.extend(waiters::evidence(judge.cx, group));
    let odds = inside_during::evidence(judge.cx, &group.slices);
    out.extend(
        odds.into_iter().flatten().map(|(what, percent)| number(what, percent, Unit::Percent)),
    );
    if let Some(repeats) = repeats {
        let shown = repeats.evidence().into_iter();
        out.extend(shown.map(|(what, times)| number(&what, times as f64, Unit::Count)));
    }
    for (calls, percent) in passed_in {
        out.push(number(&format!("part of it passed in {calls}"), *percent, Unit::Percent));
    }
    if let Some((what, part)) = running_task::evidence(judge.cx, group) {
        out.push(number(&what, (100.0 * part).round(), Unit::Percent));
    }
    if let Some((function, part)) = native_part(judge, group) {
        let what = format!("part of it in native code that the place called, most in {function}");
        out.push(number(&what, (100.0 * part).round(), Unit::Percent));
    }
    out
}

/// What the thread used around the longest interval that it ran in.
fn usage(judge: &Material<'_, '_>, group: &Group<'_>) -> Option<Usage> {
    let ran = group.slices.iter().map(|p| &p.slice.segment).filter(|s| s.state == State::Run);
    let kernel = matches!(group.cause, Cause::Cpu | Cause::DiskIo | Cause::PageFault);
    let used = ran.filter(|_| kernel).max_by_key(|s| s.ns())?;
    kernel_time::usage_around(judge.cx, used)
}

fn share_of_kernel(used: Usage) -> f64 {
    let (kernel, user) = (f64::from(used.system_us), f64::from(used.user_us));
    kernel / (kernel + user).max(1.0)
}

pub(super) fn kernel_part(judge: &Material<'_, '_>, group: &Group<'_>) -> Option<f64> {
    usage(judge, group).map(share_of_kernel)
}

/// The native function that most of a group's time in native code under Python was spent in,
/// `sqlite3_step (libsqlite3.so.0)`, and the part of the group's time that any took. None when
/// hardly any was seen.
fn native_part(judge: &Material<'_, '_>, group: &Group<'_>) -> Option<(String, f64)> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    let (mut native, mut all) = (0u64, 0u64);
    for w in &group.slices {
        let ns = w.slice.segment.ns();
        all += ns;
        if let Some(frame) = judge.cx.frames.native(w.slice.segment.stack()) {
            native += ns;
            let base = frame.file.rsplit('/').next().unwrap_or(frame.file);
            *sums.entry(format!("{} ({base})", frame.function)).or_default() += ns;
        }
    }
    let part = native as f64 / all.max(1) as f64;
    let most = sums.into_iter().max_by_key(|(_, ns)| *ns)?.0;
    (part >= thresholds::small_part()).then_some((most, part))
}
