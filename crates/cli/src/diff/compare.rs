//! What differs between two sides: names of requests that became slower, causes that are new,
//! grown, shrunk or gone.
//!
//! How it works: a difference is reported if it is large enough (`RATIO_MIN`), and if chance does
//! not explain it: the slow requests of both sides are compared as episodes (`side`), the chances
//! of all comparisons together (`chance`). A cause is identified by its fingerprint, which has no
//! line: the same place on another line is the same cause. One that vanished and one that appeared
//! with the same word and request may be one that moved, by the fleet's rule.
//!
//! What it promises: what is too rare to compare is reported as that, in both directions. The
//! bounds are those of `dashcam fleet diff`
//! (`python/tests/test_diff_has_the_bounds_of_fleet_diff.py`).

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::process::ExitCode;

use diagnosis::{Cause, Confidence, Place};

use super::chance;
use super::rates::{medians, rates, ratio, Tested, NOTHING};
use super::side::{Found, Name, Side};
use crate::output::exit_code::WORSE;

/// Smaller changes are not reported, however sure they are.
pub const RATIO_MIN: f64 = 1.5;
/// Nor a cause with a smaller part of the excess, on the side where it is larger.
pub const SHARE_MIN: f64 = 0.01;
/// Excess a request of a vanished and an appeared cause within this ratio: one that moved.
pub const MOVED_RATIO_MAX: f64 = 2.0;
/// Means of fewer episodes are not compared.
const EPISODES_MIN: u64 = 5;
/// Medians of fewer seconds are not compared.
const SECONDS_MIN: u64 = 5;
/// A typical time that changed by less is the same: schedulers differ by as much.
const TYPICAL_MIN_NS: u64 = 1_000_000;

/// What became of a cause, or of the requests of a name; the order is that of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// On the second side only.
    New,
    /// More on the second side.
    Grown,
    /// On the second side only, and as much as a cause that is on the first side only.
    Moved,
    /// It differs, and why that says little is in `CauseRow::doubt`.
    Unsure,
    /// Less on the second side.
    Shrunk,
    /// On the first side only.
    Gone,
    /// No difference that counts.
    Same,
}

impl Kind {
    /// As in the JSON.
    pub fn text(self) -> &'static str {
        match self {
            Kind::New => "new",
            Kind::Grown => "grown",
            Kind::Moved => "moved",
            Kind::Unsure => "unsure",
            Kind::Shrunk => "shrunk",
            Kind::Gone => "gone",
            Kind::Same => "same",
        }
    }

    /// The second side is slower by it.
    pub fn is_worse(self) -> bool {
        matches!(self, Kind::New | Kind::Grown)
    }
}

/// The requests of one name on both sides.
#[derive(Debug)]
pub struct NameRow<'s> {
    /// The name.
    pub name: &'s str,
    /// First and second side.
    pub sides: [Option<&'s Name>; 2],
    /// Of the part that is slow.
    pub slow: Kind,
    /// Of the typical time.
    pub typical: Kind,
}

impl NameRow<'_> {
    /// It is slower on the second side.
    pub fn is_worse(&self) -> bool {
        self.slow.is_worse() || self.typical.is_worse()
    }
}

/// A cause on both sides.
#[derive(Debug)]
pub struct CauseRow<'s> {
    /// Cause and place, as `why` has it.
    pub fingerprint: &'s str,
    /// What became of it.
    pub kind: Kind,
    /// Why that is not known.
    pub doubt: Option<Doubt>,
    /// First and second side.
    pub sides: [Option<&'s Found>; 2],
    /// The second side's, else the first one's.
    pub newest: &'s Found,
    /// Excess a request, ns.
    pub per_request_ns: [f64; 2],
    /// Part of the side's excess.
    pub shares: [f64; 2],
    /// The vanished cause that it may be.
    pub moved_from: Option<&'s str>,
    /// The appeared cause that it may have become.
    pub moved_to: Option<&'s str>,
}

/// Why a cause that differs is not called worse or better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// Too rare to exclude chance.
    Rare,
    /// Its confidence is *possible*: it may be another cause.
    Possible,
    /// The other side has as much of the same cause at the same place, because of others.
    OtherCulprit,
}

impl Doubt {
    /// As in the JSON.
    pub fn text(self) -> &'static str {
        match self {
            Doubt::Rare => "rare",
            Doubt::Possible => "possible",
            Doubt::OtherCulprit => "other-culprit",
        }
    }
}

impl CauseRow<'_> {
    /// The cause and the function, without who is to blame.
    fn coarse(&self) -> (Cause, Option<(String, String)>) {
        (self.newest.cause, self.newest.place.as_ref().map(Place::in_function))
    }

    /// It differs, and all that hinders a comparison is that it is rare.
    pub fn is_rare(&self) -> bool {
        matches!(self.doubt, Some(Doubt::Rare) | None)
    }

    /// The line it was on, if it is another one now.
    pub fn other_line(&self) -> Option<u32> {
        let line = |found: Option<&Found>| found?.place.as_ref().map(|place| place.line);
        let [a, b] = self.sides.map(line);
        a.filter(|was| b.is_some_and(|is| is != *was))
    }
}

/// What differs between two sides.
pub struct Difference<'s> {
    /// First and second side.
    pub sides: [&'s Side; 2],
    /// The worse ones first, then by how many there are.
    pub names: Vec<NameRow<'s>>,
    /// By kind, then by excess.
    pub causes: Vec<CauseRow<'s>>,
}

impl<'s> Difference<'s> {
    /// Compares the second side with the first.
    pub fn of(a: &'s Side, b: &'s Side) -> Difference<'s> {
        let mut names = names(a, b);
        let mut causes = causes(a, b);
        settle(&mut names, &mut causes, a, b);
        moved(&mut causes);
        let count = |row: &NameRow<'_>| -> u64 {
            row.sides.iter().flatten().map(|name| name.times.count()).sum()
        };
        names.sort_by_key(|row| (!row.is_worse(), Reverse(count(row)), row.name));
        let most = |row: &CauseRow<'_>| row.per_request_ns[0].max(row.per_request_ns[1]);
        causes.sort_by(|x, y| x.kind.cmp(&y.kind).then(most(y).total_cmp(&most(x))));
        Difference { sides: [a, b], names, causes }
    }

    /// The second side is slower, or has a new cause.
    pub fn is_worse(&self) -> bool {
        self.names.iter().any(NameRow::is_worse) || self.causes.iter().any(|c| c.kind.is_worse())
    }

    /// That of the commands.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(if self.is_worse() { WORSE } else { 0 })
    }
}

/// Both sides of each key.
fn joined<'s, T>(
    a: &'s BTreeMap<String, T>,
    b: &'s BTreeMap<String, T>,
) -> Vec<(&'s str, [Option<&'s T>; 2])> {
    let mut keys: Vec<&str> = a.keys().chain(b.keys()).map(String::as_str).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.into_iter().map(|key| (key, [a.get(key), b.get(key)])).collect()
}

fn names<'s>(a: &'s Side, b: &'s Side) -> Vec<NameRow<'s>> {
    let row = |(name, sides)| NameRow { name, sides, slow: Kind::Same, typical: Kind::Same };
    joined(&a.names, &b.names).into_iter().map(row).collect()
}

fn causes<'s>(a: &'s Side, b: &'s Side) -> Vec<CauseRow<'s>> {
    let row = |(fingerprint, sides): (&'s str, [Option<&'s Found>; 2])| {
        let of = |at: usize, side: &Side| {
            let ns = sides[at].map_or(0.0, |found: &Found| found.excess_ns);
            (ns / side.requests().max(1) as f64, ns / side.excess_ns.max(1.0))
        };
        let ((a_ns, a_share), (b_ns, b_share)) = (of(0, a), of(1, b));
        let newest = sides[1].or(sides[0])?;
        Some(CauseRow {
            fingerprint,
            kind: Kind::Same,
            doubt: None,
            sides,
            newest,
            per_request_ns: [a_ns, b_ns],
            shares: [a_share, b_share],
            moved_from: None,
            moved_to: None,
        })
    };
    joined(&a.causes, &b.causes).into_iter().filter_map(row).collect()
}

/// Gives each row its kind: all chances are weighed together.
fn settle(names: &mut [NameRow<'_>], causes: &mut [CauseRow<'_>], a: &Side, b: &Side) {
    let of_names: Vec<Tested> = names.iter().map(|row| slow_part(row.sides)).collect();
    let of_typical: Vec<Tested> = names.iter().map(|row| typical(row.sides)).collect();
    let of_causes: Vec<Tested> = causes.iter().map(|row| cause(row, a, b)).collect();
    let tested = || of_names.iter().chain(&of_typical).chain(&of_causes);
    let more = chance::discoveries(&tested().map(|t| t.chance_more).collect::<Vec<_>>());
    let less = chance::discoveries(&tested().map(|t| t.chance_less).collect::<Vec<_>>());
    let mut kinds = tested().zip(more.into_iter().zip(less)).map(|(t, sure)| kind(*t, sure));
    // The longest of the three.
    for row in names.iter_mut() {
        row.slow = kinds.next().unwrap_or(Kind::Same);
    }
    for row in names.iter_mut() {
        // A typical time is known or not: "unsure" says nothing of it.
        row.typical = kinds.next().filter(|kind| *kind != Kind::Unsure).unwrap_or(Kind::Same);
    }
    let kinds: Vec<Kind> = kinds.collect();
    let doubts: Vec<Option<Doubt>> =
        causes.iter().zip(&kinds).map(|(row, kind)| doubt(causes, row, *kind, [a, b])).collect();
    for ((row, kind), doubt) in causes.iter_mut().zip(kinds).zip(doubts) {
        let matters = row.shares.iter().any(|share| *share >= SHARE_MIN);
        row.doubt = doubt.filter(|_| matters);
        row.kind = match (kind, row.sides) {
            _ if !matters => Kind::Same,
            _ if row.doubt.is_some() => Kind::Unsure,
            (Kind::Grown, [None, _]) => Kind::New,
            (Kind::Shrunk, [_, None]) => Kind::Gone,
            (kind, _) => kind,
        };
    }
}

/// Why what differs may be no difference.
fn doubt(all: &[CauseRow<'_>], row: &CauseRow<'_>, kind: Kind, sides: [&Side; 2]) -> Option<Doubt> {
    let is_sure = |t: &Tested| match kind {
        Kind::Grown => t.ratio >= RATIO_MIN && t.chance_more <= chance::FALSE_DISCOVERIES,
        _ => t.ratio <= 1.0 / RATIO_MIN && t.chance_less <= chance::FALSE_DISCOVERIES,
    };
    match kind {
        Kind::Same => None,
        Kind::Unsure => Some(Doubt::Rare),
        // The culprit is inferred more often than the place.
        _ if !of_place(all, row, sides).iter().all(is_sure) => Some(Doubt::OtherCulprit),
        _ if row.newest.confidence == Confidence::Possible => Some(Doubt::Possible),
        _ => None,
    }
}

/// The comparison of all that is one cause at one place; None if that is the row alone.
fn of_place(all: &[CauseRow<'_>], row: &CauseRow<'_>, sides: [&Side; 2]) -> Option<Tested> {
    let own: Vec<_> = all.iter().filter(|other| other.coarse() == row.coarse()).collect();
    if own.len() < 2 {
        return None;
    }
    let ns = |at: usize| own.iter().map(|row| row.per_request_ns[at]).sum::<f64>();
    // A request may have several of them.
    let most = |at: usize| {
        let found = own.iter().filter_map(|row| row.sides[at]).max_by_key(|found| found.slow);
        (found.map_or(0, |f| f.slow), found.map_or(0, |f| f.episodes), sides[at].requests())
    };
    Some(Tested { ratio: ratio(ns(0), ns(1)), ..rates(most(0), most(1)) })
}

fn kind(tested: Tested, (is_more, is_less): (bool, bool)) -> Kind {
    match tested.ratio {
        ratio if ratio >= RATIO_MIN && is_more => Kind::Grown,
        ratio if ratio <= 1.0 / RATIO_MIN && is_less => Kind::Shrunk,
        ratio if ratio >= RATIO_MIN || ratio <= 1.0 / RATIO_MIN => Kind::Unsure,
        _ => Kind::Same,
    }
}

fn slow_part(sides: [Option<&Name>; 2]) -> Tested {
    // Of a name on one side only nothing is known on the other.
    let [Some(a), Some(b)] = sides else { return NOTHING };
    let of = |name: &Name| (name.slow, name.episodes, name.times.count());
    rates(of(a), of(b))
}

fn typical(sides: [Option<&Name>; 2]) -> Tested {
    let [Some(a), Some(b)] = sides else { return NOTHING };
    let (by_second_a, by_second_b) = (&a.by_second, &b.by_second);
    let (a, b) = (&a.normal, &b.normal);
    let (Some(a_ns), Some(b_ns)) = (a.quantile(0.5), b.quantile(0.5)) else { return NOTHING };
    match a_ns.abs_diff(b_ns) < TYPICAL_MIN_NS {
        true => NOTHING,
        false => Tested {
            ratio: ratio(a_ns as f64, b_ns as f64),
            ..medians(by_second_a, by_second_b, SECONDS_MIN)
        },
    }
}

fn cause(row: &CauseRow<'_>, a: &Side, b: &Side) -> Tested {
    let of = |at: usize, side: &Side| {
        let found = row.sides[at];
        let [slow, episodes] = [found.map_or(0, |f| f.slow), found.map_or(0, |f| f.episodes)];
        (slow, episodes, side.requests())
    };
    let (was, is) = (of(0, a), of(1, b));
    let mut tested = rates(was, is);
    // What is not listed may still be there, as far as it can have been left out.
    let least = |at: usize, side: &Side| match row.sides[at] {
        Some(_) => row.per_request_ns[at],
        None => side.unlisted_ns / side.requests().max(1) as f64,
    };
    tested.ratio = ratio(least(0, a), least(1, b));
    // As often, and each takes longer or less long.
    if let [Some(was), Some(is)] = row.sides {
        let lasts = medians(&was.lasted, &is.lasted, EPISODES_MIN);
        if lasts.ratio.max(1.0 / lasts.ratio) >= RATIO_MIN {
            // Two tests, of which one is enough.
            let either = |a: f64, b: f64| (2.0 * a.min(b)).min(1.0);
            tested.chance_more = either(tested.chance_more, lasts.chance_more);
            tested.chance_less = either(tested.chance_less, lasts.chance_less);
        }
    }
    tested
}

/// Marks causes that appeared as another one vanished.
fn moved(causes: &mut [CauseRow<'_>]) {
    let gone: Vec<usize> = (0..causes.len()).filter(|i| causes[*i].kind == Kind::Gone).collect();
    let new: Vec<usize> = (0..causes.len()).filter(|i| causes[*i].kind == Kind::New).collect();
    for is in new {
        for was in &gone {
            let (new, old) = (&causes[is], &causes[*was]);
            let ratio = new.per_request_ns[1] / old.per_request_ns[0];
            let is_near = (1.0 / MOVED_RATIO_MAX..=MOVED_RATIO_MAX).contains(&ratio);
            let (is_found, was_found) = (new.newest, old.newest);
            let same = is_found.cause == was_found.cause && is_found.request == was_found.request;
            if same && is_near && old.moved_to.is_none() {
                let (from, to) = (old.fingerprint, new.fingerprint);
                causes[is].moved_from = Some(from);
                if ratio < RATIO_MIN {
                    causes[is].kind = Kind::Moved;
                }
                causes[*was].moved_to = Some(to);
                break;
            }
        }
    }
}

#[cfg(test)]
#[path = "compare_tests.rs"]
mod tests;
