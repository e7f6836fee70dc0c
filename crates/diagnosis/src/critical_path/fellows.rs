//! What the task of a request most likely awaited while no sample saw it: what its fellows did.
//!
//! How it works: the sampler follows a few tasks in each pass. Of thirty requests that wait in one
//! line it sees some, and others in none of their samples. Requests of one name run the same code:
//! where several others of that name were seen within seconds, and nearly all of them awaited one
//! thing at one place, the task that was not seen awaited it, too. (Only requests past their usual
//! time are sampled, so normal ones are not among them.)
//!
//! ```text
//!   seen:      POST /event  waits: Queue.put    POST /event  waits: Queue.put   POST /event  ...
//!   not seen:  POST /event  ? . . . . . . . .   => Queue.put, most likely
//! ```
//!
//! What it promises: an inference, which a claim says (`Claim::by_fellows`); nothing where fellows
//! were seen at different places. Cost: the samples of tasks at that time.

use std::collections::BTreeMap;

use analysis::requests::Judged;
use analysis::thresholds::{self, is_part};
use analysis::timeline::Segment;
use format::record::Await;
use format::wait::AwaitKind;

use crate::context::Context;
use crate::facts::awaits;

/// The sample of a fellow of `request` that most likely says what its task awaited in `part`.
pub(crate) fn of<'c>(
    cx: &Context<'c>,
    request: &Judged<'_>,
    part: &Segment<'_>,
) -> Option<&'c Await> {
    let middle_ns = part.from_ns + part.ns() / 2;
    // Where samples are rare it takes a while until several were seen.
    let (from_ns, to_ns) = (
        middle_ns.saturating_sub(thresholds::one_activity_ns()),
        middle_ns.saturating_add(thresholds::one_activity_ns()),
    );
    let is_fellow =
        |id: u64| id != request.row.id && cx.name_of_request(id) == Some(request.row.name);
    // Of each fellow, the sample that is nearest.
    let mut nearest: BTreeMap<u64, &Await> = BTreeMap::new();
    let counts = |row: &&Await| row.request != 0 && !awaits::watches_the_client(cx, row);
    for row in cx.await_samples_between(from_ns, to_ns).filter(counts) {
        let far_ns = |row: &Await| row.t_ns.abs_diff(middle_ns);
        let known = nearest.get(&row.request);
        if known.is_none_or(|known| far_ns(row) < far_ns(known)) && is_fellow(row.request) {
            nearest.insert(row.request, row);
        }
    }
    let (one, rows) = (nearest.values().next()?, nearest.len() as u64);
    let suspended = |row: &Await| !matches!(row.kind, AwaitKind::Running | AwaitKind::Ready);
    let alike = |a: &Await, b: &Await| a.kind == b.kind && cx.same_place(a.stack, b.stack);
    let count = |a: &Await| nearest.values().filter(|b| alike(a, b)).count();
    let most = nearest.values().max_by_key(|row| count(row)).unwrap_or(one);
    let agreed = count(most);
    let enough =
        agreed >= thresholds::repeated() && is_part(agreed as u64, thresholds::main_part(), rows);
    (enough && suspended(most)).then_some(*most)
}
