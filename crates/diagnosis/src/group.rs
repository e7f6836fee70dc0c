//! Claimed segments of many requests -> groups with one place each.
//!
//! How it works: every claimed segment gets a weight, its part of its request's *excess*: what
//! normal requests of the same name spend on the same cause is subtracted first, and a request's
//! weights never sum to more than its excess. Segments of one cause are then divided by place: the
//! culprit's function where another thread is to blame, else the innermost one. Computing has many
//! leaves, so it is divided by the deepest function that most of it passes through.

use std::collections::{BTreeMap, HashMap};

use analysis::frames::{is_part_of_a_function, Owner, Place};
use analysis::requests::{Judged, Requests};
use analysis::resource::Resource;
use analysis::signatures::Stdlib;
use analysis::timeline::{self, State};
use analysis::waits::Wait;
use capture::read::Frame;
use format::wait::WaitKind;

use crate::causes::{import, Cause, Claim};
use crate::heads::join_head;
use crate::pieces::Piece;
use crate::scene::Scene;
use crate::unheld::{join_unheld, name_unheld};

/// A claimed segment of a slow request with its part of the excess.
pub struct Weighed<'c> {
    /// Index of the request among the slow ones.
    pub request: usize,
    /// The claimed segment.
    pub piece: Piece<'c>,
    /// Part of the excess, ns.
    pub excess_ns: f64,
}

impl<'c> Weighed<'c> {
    /// The part of a wait that it is, and its request.
    pub fn part(&self) -> (usize, Wait<'c>) {
        let Piece { segment, claim, .. } = &self.piece;
        (self.request, Wait { stack: claim.stack, ..Wait::of(segment) })
    }
}

/// Claimed segments with one cause and one place.
pub struct Group<'c> {
    /// The cause.
    pub cause: Cause,
    /// Where.
    pub place: Option<Place>,
    /// Where the culprit was.
    pub culprit: Option<Place>,
    /// Its claimed segments.
    pub pieces: Vec<Weighed<'c>>,
}

impl<'c> Group<'c> {
    /// Sum of their parts of the excess.
    pub fn excess_ns(&self) -> f64 {
        self.pieces.iter().map(|p| p.excess_ns).sum()
    }

    /// Whether its requests were nowhere that counts: they had not begun, or only a server's code
    /// was there that had no worker for them yet, or did not get the GIL.
    pub fn is_nowhere(&self, scene: &Scene<'_>) -> bool {
        self.pieces.iter().map(|p| p.piece.claim.stack).all(|stack| {
            let by_chance = matches!(self.cause, Cause::PoolWait | Cause::GilWait);
            stack == 0 || by_chance && !scene.frames.has_user(stack)
        })
    }

    /// The claimed segments at the group's own place; all of them where none is. Small groups of
    /// one cause are joined, and what is reported of the place must be what happened there.
    pub fn at_place(&self, scene: &Scene<'_>) -> Vec<&Weighed<'c>> {
        let there = |w: &&Weighed<'c>| {
            let place = place_of(scene, w);
            let both = place.as_ref().zip(self.place.as_ref());
            both.is_some_and(|(a, b)| (&a.qualified, &a.file) == (&b.qualified, &b.file))
        };
        let some: Vec<_> = self.pieces.iter().filter(there).collect();
        match some.is_empty() {
            true => self.pieces.iter().collect(),
            false => some,
        }
    }

    /// The claimed segment that costs most, of those whose code was seen.
    pub fn heaviest(&self) -> Option<&Weighed<'c>> {
        let seen = self.pieces.iter().filter(|p| p.piece.claim.stack != 0);
        seen.max_by(|a, b| a.excess_ns.total_cmp(&b.excess_ns))
    }
}

/// Time per cause, ns: of one request, or the mean of some.
pub type Baseline = BTreeMap<Cause, f64>;

/// What each of these spends by cause.
pub fn by_cause(scene: &Scene<'_>, requests: &[Judged<'_>]) -> Vec<Baseline> {
    let of = |request: &Judged<'_>| {
        let mut sums = Baseline::new();
        for piece in crate::pieces::of_request(scene, request) {
            *sums.entry(piece.claim.cause).or_default() += piece.segment.ns() as f64;
        }
        sums
    };
    requests.iter().map(of).collect()
}

/// What they spend in the mean.
pub fn baseline(all: &[Baseline]) -> Baseline {
    let mut sums = Baseline::new();
    for (cause, ns) in all.iter().flatten() {
        *sums.entry(*cause).or_default() += ns;
    }
    sums.values_mut().for_each(|sum| *sum /= all.len().max(1) as f64);
    sums
}

/// Weighs the claimed segments of every slow request.
pub fn weigh<'c>(
    scene: &Scene<'c>,
    requests: &Requests<'c>,
    baseline: &Baseline,
) -> Vec<Weighed<'c>> {
    let mut out = Vec::new();
    for (index, request) in requests.slow.iter().enumerate() {
        let mut pieces = crate::pieces::of_request(scene, request);
        for piece in &mut pieces {
            join_sibling(scene, requests, request, piece);
            join_head(scene, requests, request, piece);
        }
        let excess = request.ns().saturating_sub(requests.typical_of(request.row.name)) as f64;
        // In order: a sum of fractions depends on it, and the same capture has the same verdict.
        let mut totals: BTreeMap<Cause, f64> = BTreeMap::new();
        for piece in &pieces {
            *totals.entry(piece.claim.cause).or_default() += piece.segment.ns() as f64;
        }
        let unseen = unseen_part(baseline, totals.get(&Cause::Unknown).copied().unwrap_or(0.0));
        let above = |cause: &Cause| {
            let usual = baseline.get(cause).copied().unwrap_or(0.0);
            let unseen = if may_be_unseen(*cause) { usual * unseen } else { 0.0 };
            (totals[cause] - usual - unseen).max(0.0)
        };
        let sum: f64 = totals.keys().map(above).sum();
        let scale = if sum > excess { excess / sum } else { 1.0 };
        let factor: BTreeMap<Cause, f64> = totals
            .keys()
            .map(|c| (*c, if totals[c] > 0.0 { above(c) / totals[c] * scale } else { 0.0 }))
            .collect();
        out.extend(pieces.into_iter().map(|piece| Weighed {
            request: index,
            excess_ns: piece.segment.ns() as f64 * factor[&piece.claim.cause],
            piece,
        }));
    }
    out
}

/// Normal requests are sampled less than slow ones: what no sample saw of their waits is taken to
/// be like what was seen, and at most as much again. The part by which their known waits are longer
/// than they seem, for a slow request of which `unknown` ns are not known.
fn unseen_part(baseline: &Baseline, unknown: f64) -> f64 {
    let usual = baseline.get(&Cause::Unknown).copied().unwrap_or(0.0);
    let known = baseline.iter().filter(|(cause, _)| may_be_unseen(**cause));
    let known: f64 = known.map(|(_, ns)| ns).sum();
    if known > 0.0 {
        ((usual - unknown).max(0.0) / known).min(1.0)
    } else {
        0.0
    }
}

/// Whether time of this cause is known from samples only: a wait.
fn may_be_unseen(cause: Cause) -> bool {
    use Cause::{Cpu, CpuStarved, CpuThrottled, GcPause, GilWait, Recorder, Stopped, Unknown};
    !matches!(
        cause,
        Cpu | CpuStarved | CpuThrottled | GcPause | GilWait | Recorder | Stopped | Unknown
    )
}

/// A request that waited for the GIL while a slow request of the same name kept it is a victim of
/// the other's work: one event with many victims, reported once, as what the other did. A holder
/// that is no such request (a background thread, another route) is the culprit of a gil-wait. If a
/// holder itself waited for a lock for most of the time, in C code that keeps the GIL, it did not
/// delay the others by its own work: all wait for that lock then.
fn join_sibling(
    scene: &Scene<'_>,
    requests: &Requests<'_>,
    own: &Judged<'_>,
    piece: &mut Piece<'_>,
) {
    let Some(culprit) = piece.claim.culprit.filter(|_| piece.claim.cause == Cause::GilWait) else {
        return;
    };
    let (from, to) = (piece.segment.from_ns, piece.segment.to_ns);
    let timeline = scene.timeline(culprit.tid, from, to);
    let locked = timeline.iter().filter(|s| s.state == State::Wait && s.wait() == WaitKind::Futex);
    if locked.clone().map(timeline::Segment::ns).sum::<u64>() * 2 > to - from {
        let claim = locked.max_by_key(|s| s.ns()).map(|s| crate::causes::claim(scene, s));
        if let Some(claim) = claim.filter(|c| c.cause == Cause::LockWait) {
            piece.claim = Claim { seen: piece.claim.seen, rule: "lock-of-gil-holder", ..claim };
            return;
        }
    }
    let sibling = requests.slow.iter().filter(|r| r.row.name == own.row.name).any(|r| {
        let half = |begin_ns: u64, end_ns: u64| {
            end_ns.min(to).saturating_sub(begin_ns.max(from)) * 2 >= to - from
        };
        // Its own thread, or one that a part of it was handed to.
        let handed = || scene.handed(r.row.id).filter(|t| t.tid == culprit.tid);
        r.row.tid == culprit.tid && half(r.row.started_ns, r.end_ns)
            || handed().any(|t| half(t.begin_ns, t.end_ns))
    });
    if !sibling {
        return;
    }
    let longest = timeline.iter().filter(|s| s.state == State::Run).max_by_key(|s| s.ns());
    if let Some(claim) = longest.map(|s| crate::causes::claim(scene, s)) {
        let stack = if claim.stack != 0 { claim.stack } else { culprit.stack };
        piece.claim = Claim { stack, seen: piece.claim.seen, rule: "work-of-gil-holder", ..claim };
    }
}

/// Groups smaller than this part of their cause join the largest.
const SMALL: f64 = 0.1;

/// Divides the claimed segments into groups, largest first.
pub fn divide<'c>(scene: &Scene<'c>, weighed: Vec<Weighed<'c>>) -> Vec<Group<'c>> {
    // What a worker loads at its start is another matter than what a request loads.
    let starting = |w: &Weighed<'_>| w.piece.claim.resource == Some(Resource::WorkerStart);
    let mut by_cause: BTreeMap<(Cause, bool), Vec<Weighed<'c>>> = BTreeMap::new();
    for piece in weighed.into_iter().filter(|w| w.excess_ns > 0.0) {
        by_cause.entry((piece.piece.claim.cause, starting(&piece))).or_default().push(piece);
    }
    let mut groups: Vec<Group<'c>> = Vec::new();
    for ((cause, _), pieces) in by_cause {
        groups.extend(match cause {
            Cause::Cpu | Cause::Unknown => by_function(scene, cause, pieces),
            Cause::CpuStarved => {
                let mut groups = by_function(scene, cause, pieces);
                groups.iter_mut().for_each(|group| group.culprit = burner(scene, group));
                groups
            }
            Cause::EventLoopBlocked => {
                // A callback that waits does so in one place; one that computes in many.
                let waits = |w: &Weighed<'_>| w.piece.segment.state == State::Wait;
                let (waited, computed) = pieces.into_iter().partition(waits);
                let mut both = by_place(scene, cause, waited);
                for group in by_function(scene, cause, computed) {
                    join_same_function(&mut both, group);
                }
                // It is in everybody's way, whichever request or task it is of; unless it was
                // another thread that kept it.
                for group in &mut both {
                    group.culprit = group.culprit.take().or_else(|| group.place.clone());
                }
                both
            }
            Cause::Fork => {
                // Threads that were blocked meanwhile and the one that forked: one event.
                let mut groups = by_place(scene, cause, pieces);
                for group in &mut groups {
                    let own = group.pieces.iter().filter(|w| w.piece.claim.culprit.is_none());
                    let place = heaviest(own.map(|w| (place_of(scene, w), w.excess_ns)));
                    group.place = group.culprit.clone().or(place);
                }
                groups
            }
            Cause::LockWait | Cause::PoolWait => {
                name_unheld(scene, cause, by_place(scene, cause, pieces))
            }
            _ => by_place(scene, cause, pieces),
        });
    }
    groups.sort_by(|a, b| b.excess_ns().total_cmp(&a.excess_ns()));
    groups
}

/// The code that took the CPUs in most of a group's time; none if that is the same work: requests
/// that compute delay one another.
fn burner(scene: &Scene<'_>, group: &Group<'_>) -> Option<Place> {
    let told = group.pieces.iter().filter(|w| w.piece.claim.culprit.is_some());
    let ns: f64 = told.clone().map(|w| w.excess_ns).sum();
    let culprit = heaviest(told.map(|w| (culprit_of(scene, w), w.excess_ns)))?;
    let function = |p: &Place| (p.qualified.clone(), p.file.clone());
    let same = group.place.as_ref().is_some_and(|p| function(p) == function(&culprit));
    (ns * 2.0 >= group.excess_ns() && !same).then_some(culprit)
}

/// Adds a group to those of the same function, or to the list: code that waits here and computes
/// there is one callback. It has the line of the heavier part, and the blocker if it waited longer.
fn join_same_function<'c>(groups: &mut Vec<Group<'c>>, mut group: Group<'c>) {
    let function = |g: &Group<'_>| g.place.as_ref().map(|p| (p.qualified.clone(), p.file.clone()));
    let own = function(&group);
    match groups.iter_mut().find(|g| own.is_some() && function(g) == own) {
        Some(same) => {
            if group.excess_ns() > same.excess_ns() {
                same.place = group.place.take();
                same.culprit = None;
            }
            same.pieces.append(&mut group.pieces);
        }
        None => groups.push(group),
    }
}

pub(crate) fn place_of(scene: &Scene<'_>, w: &Weighed<'_>) -> Option<Place> {
    let claim = &w.piece.claim;
    match claim.prefer_user {
        true => scene.frames.innermost_user(claim.stack),
        false => scene.frames.innermost(claim.stack),
    }
}

fn culprit_of(scene: &Scene<'_>, w: &Weighed<'_>) -> Option<Place> {
    let culprit = w.piece.claim.culprit?;
    if let Some(importer) = import::importer(scene, culprit.stack) {
        return scene.frames.innermost(importer);
    }
    // A task waits where libraries do, and so does a thread that waits for a peer, a disk or a
    // child; the code that made it wait there is the question.
    let for_caller = scene.frames.waits_for_its_caller(culprit.stack);
    match w.piece.claim.prefer_user || culprit.doing.is_some() || for_caller {
        true => scene.frames.innermost_user(culprit.stack),
        false => scene.frames.innermost(culprit.stack),
    }
}

/// By culprit function where there is one, else by place; the place and culprit of a group are the
/// heaviest lines in it.
fn by_place<'c>(scene: &Scene<'c>, cause: Cause, pieces: Vec<Weighed<'c>>) -> Vec<Group<'c>> {
    let key = |w: &Weighed<'_>| -> (String, String) {
        // A stop hits every thread wherever it is: one group.
        if matches!(cause, Cause::Stopped | Cause::CpuThrottled) {
            return Default::default();
        }
        let place = culprit_of(scene, w).or_else(|| place_of(scene, w));
        place.map(|p| (p.function, p.file)).unwrap_or_default()
    };
    let mut parts: BTreeMap<(String, String), Vec<Weighed<'c>>> = BTreeMap::new();
    for piece in pieces {
        parts.entry(key(&piece)).or_default().push(piece);
    }
    let mut groups = parts.into_values().map(|pieces| finish(scene, cause, pieces)).collect();
    if cause == Cause::EventLoopBlocked {
        groups = join_strays(scene, cause, groups);
    }
    if cause == Cause::DeadlockTimeout {
        groups = join_fellows(groups);
    }
    if matches!(cause, Cause::LockWait | Cause::PoolWait | Cause::EventLoopBlocked) {
        groups = join_unheld(scene, cause, groups);
    }
    join_small(scene, cause, groups)
}

/// What another thread held for little of the time at a place joins what one held nearly always:
/// code that kept a loop there is one event, and at its ends samples show the next thing that the
/// loop did.
fn join_strays<'c>(scene: &Scene<'c>, cause: Cause, groups: Vec<Group<'c>>) -> Vec<Group<'c>> {
    let spot = |g: &Group<'_>| g.place.as_ref().map(|p| (p.qualified.clone(), p.file.clone()));
    let mut sums: BTreeMap<_, f64> = BTreeMap::new();
    for group in groups.iter().filter(|g| g.culprit.is_some()) {
        *sums.entry(spot(group)).or_default() += group.excess_ns();
    }
    let main = |g: &Group<'_>| {
        g.culprit.is_some() && sums.get(&spot(g)).is_some_and(|s| g.excess_ns() >= MAIN_PATH * s)
    };
    let (mut kept, others): (Vec<_>, Vec<_>) = groups.into_iter().partition(main);
    for group in others {
        let own = spot(&group);
        let held = own.is_some() && group.culprit.is_some();
        match kept.iter_mut().find(|g| held && spot(g) == own) {
            Some(one) => {
                one.pieces.extend(group.pieces);
                let pieces = std::mem::take(&mut one.pieces);
                *one = finish(scene, cause, pieces);
            }
            None => kept.push(group),
        }
    }
    kept
}

/// Threads that waited behind a deadlock for one that came the same way join those at the same
/// place whose partner came another way: it is one event.
fn join_fellows(groups: Vec<Group<'_>>) -> Vec<Group<'_>> {
    let spot = |p: &Option<Place>| p.as_ref().map(|p| (p.qualified.clone(), p.file.clone()));
    let (fellows, mut kept): (Vec<_>, Vec<_>) =
        groups.into_iter().partition(|g| spot(&g.place) == spot(&g.culprit));
    for group in fellows {
        let there = kept.iter_mut().filter(|g| spot(&g.place) == spot(&group.place));
        match there.max_by(|a, b| a.excess_ns().total_cmp(&b.excess_ns())) {
            Some(one) => one.pieces.extend(group.pieces),
            None => kept.push(group),
        }
    }
    kept
}

pub(crate) fn finish<'c>(scene: &Scene<'c>, cause: Cause, pieces: Vec<Weighed<'c>>) -> Group<'c> {
    let place = heaviest(pieces.iter().map(|w| (place_of(scene, w), w.excess_ns)));
    let culprit = heaviest(pieces.iter().map(|w| (culprit_of(scene, w), w.excess_ns)));
    // A culprit of a sliver of it says nothing of the rest.
    let known = |w: &&Weighed<'_>| w.piece.claim.culprit.is_some();
    let told: f64 = pieces.iter().filter(known).map(|w| w.excess_ns).sum();
    let all: f64 = pieces.iter().map(|w| w.excess_ns).sum();
    let culprit = culprit.filter(|_| told >= SMALL * all);
    // Nor does the waker of one wait say anything of waits that nobody ended.
    let vain = |w: &&Weighed<'_>| w.piece.claim.resource.as_ref().is_some_and(Resource::is_in_vain);
    let vain: f64 = pieces.iter().filter(vain).map(|w| w.excess_ns).sum();
    let culprit = culprit.filter(|_| told >= vain);
    // A process that is stopped is so nowhere in particular.
    if cause == Cause::Stopped {
        return Group { cause, place: None, culprit, pieces };
    }
    // A request that had not begun was nowhere: the place is the culprit's.
    let place = place.or_else(|| culprit.clone());
    Group { cause, place, culprit, pieces }
}

fn heaviest(items: impl Iterator<Item = (Option<Place>, f64)>) -> Option<Place> {
    let mut sums: BTreeMap<Place, f64> = BTreeMap::new();
    for (place, weight) in items {
        if let Some(place) = place {
            *sums.entry(place).or_default() += weight;
        }
    }
    sums.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(place, _)| place)
}

fn join_small<'c>(scene: &Scene<'c>, cause: Cause, mut groups: Vec<Group<'c>>) -> Vec<Group<'c>> {
    // What no sample saw joins what was seen, however little that was: the group's confidence says
    // so.
    groups.sort_by(|a, b| {
        let by_weight = b.excess_ns().total_cmp(&a.excess_ns());
        a.place.is_none().cmp(&b.place.is_none()).then(by_weight)
    });
    let total: f64 = groups.iter().map(Group::excess_ns).sum();
    let mut kept: Vec<Group<'c>> = Vec::new();
    for group in groups {
        match kept.first_mut() {
            Some(first) if group.excess_ns() < SMALL * total || group.place.is_none() => {
                first.pieces.extend(group.pieces);
            }
            _ => kept.push(group),
        }
    }
    // A group without any place that came first takes the place of what joined it.
    for group in kept.iter_mut().filter(|g| g.place.is_none()) {
        let pieces = std::mem::take(&mut group.pieces);
        *group = finish(scene, cause, pieces);
    }
    kept
}

/// A child must carry this part of its parent's weight to be followed downwards.
pub(crate) const MAIN_PATH: f64 = 0.75;

/// By the deepest own function that most of the weight passes through.
fn by_function<'c>(scene: &Scene<'c>, cause: Cause, pieces: Vec<Weighed<'c>>) -> Vec<Group<'c>> {
    let total: f64 = pieces.iter().map(|w| w.excess_ns).sum();
    let computing = matches!(cause, Cause::Cpu | Cause::CpuStarved);
    let put_off = |w: &Weighed<'_>| computing && w.piece.claim.stack == 0;
    let (unseen, mut rest): (Vec<_>, Vec<_>) = pieces.into_iter().partition(put_off);
    let mut groups: Vec<Group<'c>> = Vec::new();
    while !rest.is_empty() {
        let weight: f64 = rest.iter().map(|w| w.excess_ns).sum();
        let function = deepest_function(scene, &rest);
        let small = weight < SMALL * total;
        match (function, groups.first_mut()) {
            (_, Some(first)) if small => {
                first.pieces.append(&mut rest);
            }
            // No CPU is no CPU wherever the thread was.
            (None, Some(first)) if cause == Cause::CpuStarved => first.pieces.append(&mut rest),
            (None, _) => {
                groups.push(Group {
                    cause,
                    place: None,
                    culprit: None,
                    pieces: std::mem::take(&mut rest),
                });
            }
            (Some(place), _) => {
                let under = |w: &Weighed<'_>| passes(scene, w.piece.claim.stack, &place);
                let (inside, outside) = rest.into_iter().partition(under);
                groups.push(Group { cause, place: Some(place), culprit: None, pieces: inside });
                rest = outside;
            }
        }
    }
    join_unseen(cause, unseen, &mut groups);
    groups
}

/// Computing that no sample saw most likely went on where the samples saw the same request compute:
/// it joins the group that has most of that request. That little was seen, the group's confidence
/// says. What is left is a group without a place.
fn join_unseen<'c>(cause: Cause, unseen: Vec<Weighed<'c>>, groups: &mut Vec<Group<'c>>) {
    let parts: Vec<HashMap<usize, f64>> = groups
        .iter()
        .map(|group| {
            let mut sums = HashMap::new();
            for w in &group.pieces {
                *sums.entry(w.request).or_default() += w.excess_ns;
            }
            sums
        })
        .collect();
    let mut left = Vec::new();
    for piece in unseen {
        let part = |i: &usize| parts[*i].get(&piece.request).copied().unwrap_or(0.0);
        match (0..parts.len()).max_by(|a, b| part(a).total_cmp(&part(b))).filter(|i| part(i) > 0.0)
        {
            Some(most) => groups[most].pieces.push(piece),
            None => left.push(piece),
        }
    }
    if let (Cause::CpuStarved, Some(first)) = (cause, groups.first_mut()) {
        first.pieces.append(&mut left);
    }
    if !left.is_empty() {
        groups.push(Group { cause, place: None, culprit: None, pieces: left });
    }
}

fn passes(scene: &Scene<'_>, stack: u32, place: &Place) -> bool {
    scene.frames.passes(stack, place)
}

/// The user's and libraries' functions of a stack, outermost first, from where the work begins:
/// code that runs an event loop, and a server's code around the program's own, is under everything.
/// `on_loop`: of a loop's thread; elsewhere a loop is one that the work itself runs.
fn own_functions(scene: &Scene<'_>, stack: u32, on_loop: bool) -> Vec<Place> {
    let owner = |f: &Frame<'_>| scene.frames.owner(f.file);
    // The second is what is left of it to be seen where the loop is not written in Python.
    let runs_the_loop = |f: &Frame<'_>| {
        scene.frames.is_at(f, Stdlib::LoopRunOnce) || scene.frames.is_at(f, Stdlib::LoopRun)
    };
    let own = |f: &Frame<'_>| matches!(owner(f), Owner::User | Owner::Library);
    let work = scene.frames.of(stack).take_while(|f| !(on_loop && runs_the_loop(f)));
    let mut frames: Vec<Frame<'_>> =
        work.filter(|f| own(f) && !is_part_of_a_function(f.function)).collect();
    let serves = |f: &Frame<'_>| owner(f) == Owner::User && f.function != "<module>";
    if let Some(outermost) = frames.iter().rposition(serves) {
        frames.truncate(outermost + 1);
    }
    frames.iter().rev().map(|f| scene.frames.place(f)).collect()
}

/// Walks from the root along the heaviest function while it carries most of the weight; the last
/// own one met, at its heaviest line.
fn deepest_function(scene: &Scene<'_>, pieces: &[Weighed<'_>]) -> Option<Place> {
    // Many claimed segments, few stacks.
    let mut weights: BTreeMap<(u32, bool), f64> = BTreeMap::new();
    for w in pieces.iter().filter(|w| w.piece.claim.stack != 0) {
        let on_loop = scene.is_loop(&w.piece.segment);
        *weights.entry((w.piece.claim.stack, on_loop)).or_default() += w.excess_ns;
    }
    let mut stacks: Vec<(Vec<Place>, f64)> = Vec::new();
    for ((stack, on_loop), weight) in weights {
        let mut own = own_functions(scene, stack, on_loop);
        // Where in a library a thread lost its CPU is chance.
        if pieces[0].piece.claim.cause == Cause::CpuStarved && scene.frames.has_user(stack) {
            own.retain(|place| scene.frames.owner(&place.file) == Owner::User);
        }
        stacks.push((own, weight));
    }
    let mut total = 0.0;
    let mut found: Option<Place> = None;
    let mut depth = 0;
    loop {
        let mut functions: BTreeMap<(&str, &str), f64> = BTreeMap::new();
        for (frames, weight) in &stacks {
            if let Some(place) = frames.get(depth) {
                *functions.entry((&place.qualified, &place.file)).or_default() += weight;
            }
        }
        let Some(((function, file), weight)) = functions
            .into_iter()
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .map(|((f, p), w)| ((f.to_owned(), p.to_owned()), w))
        else {
            return found;
        };
        match depth {
            // At the root the heaviest is taken whatever its part: the rest becomes another group.
            0 => total = weight,
            _ if weight < MAIN_PATH * total => return found,
            _ => {}
        }
        let here = |p: &&Place| p.qualified == function && p.file == file;
        let lines = stacks.iter().map(|(f, w)| (f.get(depth).filter(here).cloned(), *w));
        found = heaviest(lines);
        stacks.retain(|(frames, _)| frames.get(depth).is_some_and(|p| here(&p)));
        depth += 1;
    }
}
