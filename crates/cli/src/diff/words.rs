//! A difference as text: for a terminal or a pipe.
//!
//! What it promises: one screen. Lists are bounded, and what is left out is counted; the worse
//! rows are never left out before the others.

use analysis::readable::{counted, ms_text, thousands};
use diagnosis::{Cause, Place};

use super::compare::{CauseRow, Difference, Doubt, Kind, NameRow};
use super::side::{Found, Side};
use crate::output::columns::{columns, plain, utc};

/// Names of requests listed.
const NAMES_MAX: usize = 8;
/// Why most unsure causes are.
const RARE: &str = ": not enough to compare";
/// Causes listed.
const CAUSES_MAX: usize = 10;

/// The answer of `dashcam diff`.
pub fn of(difference: &Difference<'_>, slow: &str) -> String {
    let [a, b] = difference.sides;
    let mut out = side("A", a) + &side("B", b) + &rules(difference, slow) + "\n";
    out += &headline(difference);
    out += &names(&difference.names);
    out += &causes(difference);
    out
}

fn side(letter: &str, side: &Side) -> String {
    let services: Vec<&str> = side.services.iter().map(String::as_str).collect();
    let mut text = format!(
        "{letter}  {}: {} of {}",
        side.path,
        counted(side.files.len(), "capture"),
        services.join(", ")
    );
    if let Some((from_ns, to_ns)) = side.covers_ns {
        text += &format!(", {}", span(from_ns, to_ns));
    }
    let (slow, all) = (thousands(side.slow()), counted(side.requests() as usize, "request"));
    text += &format!("; {slow} of {all} slow");
    if side.unread > 0 {
        text += &format!("; {} not readable", side.unread);
    }
    if side.elsewhere > 0 {
        text += &format!("; {} of other services left out", side.elsewhere);
    }
    text + "\n"
}

/// `2026-11-21 09:10:00 to 09:40:02 UTC`.
fn span(from_ns: u64, to_ns: u64) -> String {
    let (first, last) = (utc(from_ns), utc(to_ns));
    let day = first.split(' ').next().unwrap_or_default();
    let last = last.strip_prefix(day).map_or(last.as_str(), str::trim_start);
    format!("{first} to {last} UTC")
}

/// What both sides are judged by, and what makes them differ.
fn rules(difference: &Difference<'_>, slow: &str) -> String {
    let [a, b] = difference.sides;
    let mut text = format!("Slow on both sides: {}.", plain(slow));
    for (letter, side) in [("A", a), ("B", b)] {
        let others: Vec<&str> = side.other_rules.iter().map(String::as_str).collect();
        if !others.is_empty() {
            text += &format!(" {letter} was recorded with {}.", others.join("; "));
        }
    }
    let differ: Vec<String> = both_sources(a, b).collect();
    if !differ.is_empty() {
        text += &format!(" Recorded otherwise: {}.", differ.join("; "));
    }
    if a.services != b.services {
        text += " Different services: only code that both run can be compared.";
    }
    text + "\n"
}

/// What one side has and the other has not, since causes are known less well without it.
fn both_sources<'s>(a: &'s Side, b: &'s Side) -> impl Iterator<Item = String> + 's {
    let word = |on: bool| if on { "on" } else { "off" };
    a.sources.iter().filter_map(move |(name, on_a)| {
        let on_b = b.sources.get(name).copied().unwrap_or(false);
        (on_b != *on_a)
            .then(|| format!("{} {} in A, {} in B", plain(name), word(*on_a), word(on_b)))
    })
}

fn headline(difference: &Difference<'_>) -> String {
    let per_request = |side: &Side| side.excess_ns / side.requests().max(1) as f64;
    let [a, b] = difference.sides.map(per_request).map(time);
    let excess = format!("excess {a} a request in A, {b} in B");
    let unsure = difference.causes.iter().any(|row| row.kind == Kind::Unsure)
        || difference.names.iter().any(|row| row.slow == Kind::Unsure);
    match (difference.is_worse(), unsure) {
        (true, _) => format!("B is slower: {excess}.\n"),
        (false, true) => format!("Nothing is surely worse in B: {excess}.\n"),
        (false, false) => format!("Nothing is worse in B: {excess}.\n"),
    }
}

fn time(ns: f64) -> String {
    match ns {
        ns if ns < 1.0 => "0".to_owned(),
        ns => ms_text(ns / 1e6),
    }
}

fn names(rows: &[NameRow<'_>]) -> String {
    let head = ["", "REQUESTS A", "B", "TYPICAL A", "B", "SLOW A", "B", "NAME"];
    let shown = rows.iter().take(NAMES_MAX).map(|row| {
        let of = |text: &dyn Fn(&super::side::Name) -> String| {
            row.sides.map(|name| name.map_or_else(|| "-".to_owned(), text))
        };
        let count = of(&|name| thousands(name.times.count()));
        let typical = of(&|name| match name.normal.quantile(0.5) {
            Some(ns) => ms_text(ns as f64 / 1e6),
            None => "-".to_owned(),
        });
        let slow = of(&|name| percent(name.slow as f64 / name.times.count().max(1) as f64));
        let mut cells = vec![word_of(row).to_owned()];
        cells.extend(count.into_iter().chain(typical).chain(slow));
        cells.push(row.name.to_owned());
        cells
    });
    let text = columns(&head, shown);
    match rows.len().saturating_sub(NAMES_MAX) {
        0 => text,
        more => {
            let worse = rows.iter().skip(NAMES_MAX).filter(|row| row.is_worse()).count();
            let worse = if worse > 0 { format!(", {worse} of them worse") } else { String::new() };
            format!("{text}and {}{worse}\n", counted(more, "more name"))
        }
    }
}

fn word_of(row: &NameRow<'_>) -> &'static str {
    match (row.sides, row.slow, row.typical) {
        ([None, _], ..) => "only B",
        ([_, None], ..) => "only A",
        _ if row.is_worse() => "worse",
        (_, Kind::Shrunk, _) | (_, _, Kind::Shrunk) => "better",
        (_, Kind::Unsure, _) => "unsure",
        _ => "same",
    }
}

/// `2.1 %`, `0.02 %`, `0 %`.
fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".to_owned(),
        part if part < 0.995 => format!("{part:.2} %"),
        part if part < 9.95 => format!("{part:.1} %"),
        part => format!("{part:.0} %"),
    }
}

fn causes(difference: &Difference<'_>) -> String {
    let mut out = String::new();
    // What moved is in the line of what it became.
    let rows: Vec<_> = difference.causes.iter().filter(|row| row.moved_to.is_none()).collect();
    let mut is_said = false;
    for row in rows.iter().take(CAUSES_MAX) {
        let mut text = described(difference, row);
        if row.kind == Kind::Unsure && row.is_rare() {
            // Of several the first says it.
            text += if is_said { "" } else { RARE };
            is_said = true;
        }
        out += &format!("  {:7} {text}\n", row.kind.text());
    }
    match rows.len().saturating_sub(CAUSES_MAX) {
        0 => out,
        more => format!("{out}and {}\n", counted(more, "more cause")),
    }
}

fn described(difference: &Difference<'_>, row: &CauseRow<'_>) -> String {
    let mut text = format!("{}: {}", name(row.newest), amounts(difference, row));
    if let Some(line) = row.other_line() {
        text += &format!("; line {line} in A");
    }
    let from = difference.causes.iter().find(|other| Some(other.fingerprint) == row.moved_from);
    if let Some(from) = from {
        let ns = time(from.per_request_ns[0]);
        text += &format!("; may have moved from {} ({ns} a request in A)", name(from.newest));
    }
    text
}

/// `sleep at geocache.py:41 backoff(), because of ...`.
pub fn name(found: &Found) -> String {
    let place = |word: &str, place: Option<&Place>| {
        place.map_or_else(String::new, |place| format!("{word}{}", plain(&place.short())))
    };
    let culprit = found.culprit.as_ref().filter(|culprit| Some(*culprit) != found.place.as_ref());
    let (at, by) = (place(" at ", found.place.as_ref()), place(", because of ", culprit));
    let unnamed = if found.cause == Cause::Unknown { " (no cause is known)" } else { "" };
    format!("{}{at}{by}{unnamed}", found.cause.text())
}

fn amounts(difference: &Difference<'_>, row: &CauseRow<'_>) -> String {
    let [a_ns, b_ns] = row.per_request_ns.map(time);
    let [a_share, b_share] = row.shares.map(|share| format!("{:.0} %", share * 100.0));
    let [a_slow, b_slow] =
        row.sides.map(|found| thousands(found.map_or(0, |found: &Found| found.slow)));
    match row.kind {
        Kind::New | Kind::Moved => format!(
            "{b_ns} a request ({b_share} of B's excess), in {}; {}; in A not seen",
            counted_text(&b_slow, "slow request"),
            row.newest.confidence.text()
        ),
        Kind::Gone => format!(
            "{a_ns} a request in A ({a_share} of its excess), in {}; in B not seen",
            counted_text(&a_slow, "slow request")
        ),
        Kind::Unsure => unsure(difference, row, [&a_slow, &b_slow]),
        Kind::Same if row.sides.iter().any(Option::is_none) => {
            let (ns, share, letter) = match row.sides[0] {
                Some(_) => (a_ns, a_share, "A"),
                None => (b_ns, b_share, "B"),
            };
            format!(
                "{ns} a request ({share} of {letter}'s excess); in the other it may be below \
                 what a verdict lists"
            )
        }
        Kind::Grown | Kind::Shrunk | Kind::Same => format!(
            "{a_ns} > {b_ns} a request ({a_share} > {b_share} of the excess), in {a_slow} > \
             {b_slow} slow requests"
        ),
    }
}

fn counted_text(count: &str, what: &str) -> String {
    format!("{count} {what}{}", if count == "1" { "" } else { "s" })
}

fn unsure(difference: &Difference<'_>, row: &CauseRow<'_>, [a, b]: [&str; 2]) -> String {
    let [all_a, all_b] = difference.sides.map(|side| thousands(side.requests()));
    let mut bursts: Vec<String> = Vec::new();
    for (letter, found) in ["A", "B"].into_iter().zip(row.sides) {
        if let Some(found) = found.filter(|found| found.episodes < found.slow) {
            bursts.push(format!("{} in {letter}", counted(found.episodes as usize, "burst")));
        }
    }
    let bursts = match bursts.is_empty() {
        true => String::new(),
        false => format!(" ({})", bursts.join(", ")),
    };
    let why = match row.doubt {
        Some(Doubt::Possible) => ": its confidence is only possible",
        Some(Doubt::OtherCulprit) => ": the same place waited as long in both, because of others",
        Some(Doubt::Rare) | None => "",
    };
    let slow = counted_text(b, "slow request");
    format!("{slow} of {all_b} in B against {a} of {all_a} in A{bursts}{why}")
}

/// A line for a finding of `why --against`.
pub fn against(difference: &Difference<'_>, row: &CauseRow<'_>) -> String {
    let [a, _] = difference.sides;
    let [a_ns, b_ns] = row.per_request_ns.map(time);
    let [a_share, b_share] = row.shares.map(|share| format!("{:.0} %", share * 100.0));
    let mut text = match (row.kind, row.sides) {
        (Kind::New | Kind::Moved, _) => {
            let all = counted(a.requests() as usize, "request");
            format!("new since {}: in none of its {all}", a.path)
        }
        (kind, [Some(_), _]) => {
            let word = if kind == Kind::Unsure {
                "too rare to say more".to_owned()
            } else {
                kind.text().to_owned()
            };
            format!(
                "also in {}: {a_share} of its excess then, {b_share} now; {a_ns} a request then, \
                 {b_ns} now: {word}",
                a.path
            )
        }
        (_, [None, _]) => {
            let [a_slow, b_slow] = row.sides.map(|f| thousands(f.map_or(0, |f: &Found| f.slow)));
            let text = unsure(difference, row, [&a_slow, &b_slow]);
            format!("not seen in {}; {text}{}", a.path, if row.is_rare() { RARE } else { "" })
        }
    };
    if let Some(line) = row.other_line() {
        text += &format!("; on line {line} then");
    }
    let from = difference.causes.iter().find(|other| Some(other.fingerprint) == row.moved_from);
    if let Some(from) = from {
        text += &format!("; may have moved from {}", name(from.newest));
    }
    text
}
