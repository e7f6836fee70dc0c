//! The library's function in which the program's own code computed or paused, for the end of the
//! sentence.
//!
//! How it works: the place of a finding is the program's own function, as that is what its reader
//! can change. What an installed library did for it is named beside. Computing has many leaves, so
//! it is the deepest function of a library that most of it passes through.
//!
//! What it promises: a function that most of the finding's time at its place was seen in; nothing
//! where a library is only the messenger of a peer, a lock or a pool.

use analysis::frames::{Owner, Place};
use analysis::timeline::State;

use crate::cause::Cause;
use crate::claim::Weighed;
use crate::context::Context;
use crate::groups::{divide, Group};

/// The library's function of a group, if the program's own called one.
pub fn of_group(cx: &Context<'_>, group: &Group<'_>) -> Option<Place> {
    let place = group.place.as_ref()?;
    let owner = |place: &Place| cx.frames.owner(&place.file);
    let applies = matches!(
        group.cause,
        Cause::Cpu | Cause::EventLoopBlocked | Cause::GcPause | Cause::PageFault | Cause::Sleep
    );
    if !applies || owner(place) != Owner::User {
        return None;
    }
    // A loop that waits in a library for an answer does so for the caller.
    let carries = |w: &Weighed<'_>| {
        group.cause == Cause::EventLoopBlocked && w.slice.segment.state == State::Wait
    };
    let slices = || group.at_place(cx).into_iter().filter(|w| !carries(w));
    let found = divide::deepest(cx, slices(), |_| ())?;
    let there = slices().filter(|w| cx.frames.passes(w.slice.claim.stack, &found));
    let most = there.map(|w| w.excess_ns).sum::<f64>() * 2.0 >= group.excess_ns();
    (most && owner(&found) == Owner::Library).then_some(found)
}
