//! The blocking chain behind a blocker: what it waited for itself, and so on.
//!
//! How it works: of each thread of the chain the wait that took most of the time counts. Which
//! thread blocked it is a list of inferences about one link; the heaviest evidence wins.
//!
//! What it promises: no thread is met twice; a chain that is to rest on facts ends at a guess.

use analysis::timeline::Segment;

use crate::candidate::{self, Asked, Candidate, Source};
use crate::claim::{Blocker, Link};
use crate::context::Context;
use crate::ended_by::one_wait::queue_reader;
use crate::ended_by::read::gil;
use crate::explain::Inference;
use crate::facts::pools;

/// Threads a chain of waits is followed through.
const HOPS_MAX: usize = 6;

/// A question about one wait.
pub(crate) type AskWait = fn(&Context<'_>, &Asked<'_>) -> Option<Blocker>;

/// A chain's next link: the thread that waits, and what it did.
struct Hop<'a> {
    /// What the thread did during the wait that began the chain.
    own: &'a [Segment<'a>],
    /// That wait.
    segment: &'a Segment<'a>,
    /// The thread's wait for a lock for most of that.
    longest: Option<&'a Segment<'a>>,
    reach: &'a Reach,
}

impl<'a> Hop<'a> {
    fn asked(&self) -> Option<Asked<'a>> {
        Some(Asked { segment: self.longest?, is_chained: self.reach.is_chained })
    }
}

/// An inference about a link of a chain.
type AskHop = fn(&Context<'_>, &Hop<'_>) -> Option<Candidate>;

/// Which thread blocked a blocker.
const OF_HOP: &[Source<AskHop>] = &[
    (Inference::NamedHolder, hop_to_holder),
    (Inference::QueueReader, hop_to_reader),
    (Inference::GilHolder, hop_to_gil),
];

/// How far a chain is followed.
#[derive(Clone, Copy)]
pub(crate) struct Reach {
    /// Guesses end it.
    pub(crate) measured: bool,
    /// It is part of the question which thread left a function (`Asked`).
    pub(crate) is_chained: bool,
    /// The holder of what a wait is for.
    pub(crate) holder: AskWait,
}

/// The last blocker of the chain behind one; itself if it waited for nobody.
pub(crate) fn follow(
    cx: &Context<'_>,
    mut blocker: Blocker,
    segment: &Segment<'_>,
    reach: &Reach,
) -> Blocker {
    let mut seen = vec![segment.tid, blocker.tid];
    while seen.len() < HOPS_MAX {
        let own = cx.timeline(blocker.tid, segment.from_ns, segment.to_ns);
        let longest =
            analysis::waits::longest_lock(&own).filter(|w| w.waited_ns * 2 > segment.ns());
        let longest = longest.as_ref().map(|wait| &wait.longest);
        let hop = Hop { own: &own, segment, longest, reach };
        // Guessed, and it is where the wait began: another waiter.
        let fellow =
            |next: &Blocker| seen.contains(&next.tid) || cx.same_place(next.stack, segment.stack());
        let fits = |next: &Blocker| next.measured || !reach.measured && !fellow(next);
        let wait = longest.unwrap_or(segment);
        let next = candidate::best(cx, (wait, OF_HOP), |ask| ask(cx, &hop), fits);
        let Some(next) = next.filter(|next| !seen.contains(&next.tid)) else { break };
        seen.push(next.tid);
        let through = if blocker.through == 0 { blocker.stack } else { blocker.through };
        let puts = longest.is_some_and(|wait| pools::puts(cx, wait.stack()));
        let link = if puts && next.link == Link::Lock { Link::Room } else { next.link };
        blocker = Blocker { measured: blocker.measured && next.measured, through, link, ..next };
    }
    blocker
}

fn hop_to_holder(cx: &Context<'_>, hop: &Hop<'_>) -> Option<Candidate> {
    let found = (hop.reach.holder)(cx, &hop.asked()?);
    found.map(Candidate::of)
}

/// The thread that was to make room, or to give notice.
fn hop_to_reader(cx: &Context<'_>, hop: &Hop<'_>) -> Option<Candidate> {
    let waits = hop.own.iter().filter(|s| queue_reader::waits_for(cx, s).is_some());
    let ns: u64 = waits.clone().map(Segment::ns).sum();
    let longest = waits.max_by_key(|s| s.ns()).filter(|_| ns * 2 > hop.segment.ns())?;
    let link = queue_reader::waits_for(cx, longest)?;
    let reader = queue_reader::of(cx, longest)?;
    Some(Candidate::of(Blocker { link, ..reader }))
}

fn hop_to_gil(cx: &Context<'_>, hop: &Hop<'_>) -> Option<Candidate> {
    gil::holder_over(cx, hop.own, hop.segment).map(Candidate::of)
}
