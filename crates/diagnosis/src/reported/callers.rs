//! Which of the program's own functions had other code do what took the time: the caller to blame.
//!
//! How it works: the innermost blocking code may only do what its caller asked for. What an
//! installed library computes is its caller's, which is the finding's place. A pause in a library
//! belongs to the function that the library calls between its pauses (a decorator that tries
//! again), else to the function that called the library. Repeated calls do not belong to the helper
//! that makes one, but to the function that makes many: the function in which a comprehension on
//! the way is written, else the first that is no helper. A helper is a function that more than one
//! of the program's own functions were seen to call.
//!
//! What it promises: nothing is named that is not on a stack of the finding, or between two of its
//! pauses. Cost: for calls made again and again, one pass over the stacks of a capture.

use std::collections::HashSet;

use analysis::frames::{is_part_of_a_function, Owner, Place};
use capture::read::Frame;

use crate::cause::Cause;
use crate::causes::rule::Repeats;
use crate::context::Context;
use crate::groups::Group;
use crate::reported::retries;

/// The caller to blame for a group without another culprit; None where the code at its place did it
/// of its own. `library`: the library's function that did it.
pub fn of_group(
    cx: &Context<'_>,
    group: &Group<'_>,
    library: Option<&Place>,
    repeats: Option<&Repeats>,
) -> Option<Place> {
    // What keeps a loop is its own culprit.
    let itself = group.cause == Cause::EventLoopBlocked && group.culprit == group.place;
    let place = group.place.as_ref().filter(|_| itself || group.culprit.is_none())?;
    let is_user = |p: &Place| cx.frames.owner(&p.file) == Owner::User;
    if let Some(paused) = library {
        let tries = || retries::called_between(cx, group, paused).filter(is_user);
        let tried = (group.cause == Cause::Sleep).then(tries).flatten();
        return tried.or_else(|| Some(place.clone()));
    }
    let stack = group.heaviest()?.slice.claim.stack;
    let found = repeats.and_then(|_| frequent_caller(cx, stack));
    found.filter(|found| !found.is_in_function_of(place))
}

/// The innermost function of the program's own on a stack that is no helper, or in which a
/// comprehension on the way is written.
fn frequent_caller(cx: &Context<'_>, stack: u32) -> Option<Place> {
    let user = |f: &Frame<'_>| cx.frames.owner(f.file) == Owner::User;
    let own: Vec<Frame<'_>> = cx.frames.of(stack).filter(user).collect();
    if let Some(at) = own.iter().position(|f| is_part_of_a_function(f.function)) {
        let written_in = own[at..].iter().find(|f| !is_part_of_a_function(f.function));
        return written_in.map(|f| cx.frames.place(f));
    }
    let caller = own.iter().find(|f| !is_helper(cx, f));
    caller.map(|f| cx.frames.place(f))
}

/// Whether two functions of the program's own or more were seen to call this one.
fn is_helper(cx: &Context<'_>, helper: &Frame<'_>) -> bool {
    let same = |f: &Frame<'_>| f.function == helper.function && f.file == helper.file;
    let mut callers: HashSet<(&str, &str)> = HashSet::new();
    for stack in 1..=cx.capture.stacks.len() as u32 {
        let mut own = cx.capture.frames(stack);
        if own.next().is_some_and(|f| same(&f)) {
            let caller = own.find(|f| cx.frames.owner(f.file) == Owner::User && !same(f));
            callers.extend(caller.map(|f| (f.function, f.file)));
        }
        if callers.len() > 1 {
            return true;
        }
    }
    false
}
