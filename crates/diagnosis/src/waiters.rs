//! What a lock is called, and which other threads wait for it.
//!
//! How it works: samples of a thread in a futex have the futex. Samples of a blocker of a slow
//! request also have what is behind it (`Sample.lock`): a lock in static memory by its name,
//! Python's by the address of the object. Waiters for one Condition or queue sleep on a futex of
//! their own each; the object shows that they wait for the same.
//!
//! What it promises: a thread that was seen waiting did wait; one that waited too shortly to be
//! sampled is not among them.

use std::collections::BTreeSet;

use analysis::timeline::{Segment, State};
use capture::read::Capture;
use format::record::{Sample, TARGET_IS_NAME};
use format::wait::WaitKind;

use crate::causes::Cause;
use crate::culprits;
use crate::finding::Evidence;
use crate::group::Group;
use crate::scene::Scene;

impl Scene<'_> {
    /// What is behind the futex that `segment` waits for, as any sample of that wait has it; 0:
    /// nothing known.
    fn lock_behind(&self, segment: &Segment<'_>) -> u64 {
        let Some(own) = segment.sample.filter(|s| s.wait == WaitKind::Futex) else { return 0 };
        if own.lock != 0 {
            return own.lock;
        }
        let mut seen = self.samples_of(&self.whole_wait(segment));
        seen.find_map(|s| (s.lock != 0).then_some(s.lock)).unwrap_or(0)
    }

    /// The name of the lock that `segment` waits for: `CACHE in libfoo.so`.
    pub fn lock_name(&self, segment: &Segment<'_>) -> Option<String> {
        let lock = self.lock_behind(segment);
        let named = lock & TARGET_IS_NAME != 0;
        let name = named.then(|| self.capture.name(lock as u32).to_owned());
        name.filter(|name| !name.is_empty())
    }
}

/// How many threads were seen waiting for the same during the group's longest wait for a lock or a
/// pool, if it was not alone.
pub fn evidence(scene: &Scene<'_>, group: &Group<'_>) -> Option<Evidence> {
    if !matches!(culprits::waits(scene, group), Cause::LockWait | Cause::PoolWait) {
        return None;
    }
    let waits = group.pieces.iter().map(|p| &p.piece.segment);
    let locks = waits.filter(|s| s.state == State::Wait && s.wait() == WaitKind::Futex);
    let longest = locks.max_by_key(|s| (s.ns(), s.tid, s.from_ns))?;
    let (futex, lock) = (longest.sample?.target, scene.lock_behind(longest));
    let (from_ns, to_ns) = scene.whole_wait(longest).times();
    let same = |s: &Sample| {
        s.wait == WaitKind::Futex && (s.target == futex || lock != 0 && s.lock == lock)
    };
    let waited =
        |tid: &u32| scene.samples_in(*tid, from_ns, to_ns.saturating_add(1)).iter().any(same);
    let capture: &Capture = scene.capture;
    let mut tids: BTreeSet<u32> = capture.samples.keys().copied().filter(waited).collect();
    tids.insert(longest.tid);
    let what = "threads seen waiting for the same during the longest wait".to_owned();
    (tids.len() > 1).then_some(Evidence { what, value: tids.len() as f64, unit: "threads" })
}
