//! What is said of an interval: its cause, its place, and its blocker.
//!
//! How it works: a cause's rule makes a `Claim` on a segment of a thread; the two together are a
//! `Slice` of a request's critical path. The `Blocker` of a claim is another thread, or a task,
//! with the inference that found it.
//!
//! What it promises: plain data. Nothing here reads a capture.

use analysis::resource::Resource;
use analysis::thresholds;
use analysis::timeline::Segment;
use analysis::waits::Wait;
use format::record::Await;

use crate::cause::Cause;
use crate::doing::Doing;
use crate::explain::Inference;

/// Another thread that is to blame, and how that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocker {
    /// The thread.
    pub tid: u32,
    /// Where it was.
    pub stack: u32,
    /// Read from the lock or the interpreter, not inferred from timing.
    pub measured: bool,
    /// It is a task of an event loop, and this is what it did.
    pub(crate) doing: Option<Doing>,
    /// Where the first thread was that waited for this one: it made the request wait itself. 0
    /// where this thread did.
    pub(crate) through: u32,
    /// What the last of those waited for.
    pub(crate) link: Link,
    /// How it was found.
    pub(crate) by: Inference,
}

/// What a thread waited for that another one had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Link {
    /// A lock.
    #[default]
    Lock,
    /// The GIL.
    Gil,
    /// Room in a queue, or a pipe, that the other empties.
    Room,
    /// A Condition's notice.
    Notice,
}

impl Blocker {
    /// A thread.
    pub(crate) fn thread(tid: u32, stack: u32, measured: bool, by: Inference) -> Blocker {
        Blocker { tid, stack, measured, doing: None, through: 0, link: Link::Lock, by }
    }
}

/// What a rule says of a segment it claims.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The cause.
    pub cause: Cause,
    /// Stack that shows where it happened; the segment's own, or a worker's.
    pub stack: u32,
    /// The blocker, when it is another thread.
    pub blocker: Option<Blocker>,
    /// What was waited for.
    pub resource: Option<Resource>,
    /// The kind of wait was seen in a sample of this segment, not borrowed.
    pub seen: bool,
    /// It is what another thread did, and that thread was found because it ran when the wait for it
    /// ended.
    pub inferred: bool,
    /// No sample saw what the request's task awaited: it is what other requests of its name did.
    pub(crate) by_fellows: bool,
    /// Begin and end of the await are known exactly: the interpreter reported them.
    pub(crate) suspended: bool,
    /// It is what another thread did, and the request was blocked here and waited for that; else 0.
    pub(crate) waiter: u32,
    /// The id of the rule that claims it.
    pub(crate) rule: &'static str,
}

/// What no rule claims has this id.
const NO_RULE: &str = "unknown";

impl Claim {
    /// A claim with the segment's own stack and nothing else.
    pub(crate) fn of(cause: Cause, segment: &Segment<'_>) -> Claim {
        Claim {
            cause,
            stack: segment.stack(),
            blocker: None,
            resource: None,
            seen: segment.sampled,
            inferred: false,
            by_fellows: false,
            suspended: false,
            waiter: 0,
            rule: NO_RULE,
        }
    }

    /// The same claim, made by a rule. One that took over what another rule claims leaves it that.
    pub(crate) fn by_rule(self, id: &'static str) -> Claim {
        Claim { rule: if self.rule == NO_RULE { id } else { self.rule }, ..self }
    }

    /// A claim with the await's stack.
    pub(crate) fn of_await(cause: Cause, row: &Await, segment: &Segment<'_>) -> Claim {
        let near = row.t_ns + thresholds::await_seen_ns() >= segment.from_ns
            && row.t_ns <= segment.to_ns + thresholds::await_seen_ns();
        Claim { stack: row.stack, seen: near, ..Claim::of(cause, segment) }
    }
}

/// A segment of a request and its claim.
pub struct Slice<'c> {
    /// The segment.
    pub segment: Segment<'c>,
    /// The claim.
    pub claim: Claim,
}

impl Slice<'_> {
    /// Whether its begin and end are known exactly: by switch records of its thread, or because the
    /// interpreter reported when the request's task was suspended.
    pub(crate) fn is_exact(&self) -> bool {
        self.segment.exact || self.claim.suspended
    }
}

/// A claimed segment of a slow request with its part of the excess.
pub(crate) struct Weighed<'c> {
    /// Index of the request among the slow ones.
    pub(crate) request: usize,
    /// The claimed segment.
    pub(crate) slice: Slice<'c>,
    /// Part of the excess, ns.
    pub(crate) excess_ns: f64,
}

impl<'c> Weighed<'c> {
    /// The part of a wait that it is, and its request.
    pub(crate) fn part(&self) -> (usize, Wait<'c>) {
        let Slice { segment, claim, .. } = &self.slice;
        (self.request, Wait { stack: claim.stack, ..Wait::of(segment) })
    }
}
