//! Locks: what a thread in a futex wait waits for, and the holder.
//!
//! How it works: a thread blocked in a `threading.Lock` or `RLock` is in a futex wait. Up to 3.13
//! its address is the lock's own semaphore: the lock object is found among the locals and the value
//! stack of the waiter's innermost frames, or as the object that a builtin method there is bound
//! to; its lock word must equal the futex. From 3.14 on each waiter sleeps on a semaphore of its
//! own, in an entry of the parking lot that names the lock:
//!
//! ```text
//!   waiter's C stack:  | ... | address of the lock's word | semaphore, the futex | ...
//! ```
//!
//! An `RLock` names its owner. A plain `Lock` does not, but `with lock:` keeps the way out on the
//! holder's value stack until the body is left (see `exits`):
//!
//! ```text
//!   holder's frame:  | locals | ... | __exit__ of lock | what the body pushed | stale slots
//!                             ^ value stack             ^ depth the handler of the body keeps
//! ```
//!
//! Slots above the live stack keep their old content, so only the slots count that the handler
//! around the frame's current instruction keeps (3.11+: exception table; before: the block stack).
//! That is exact: within the body there always is such a handler, after it there is none.
//!
//! What it promises: `None` rather than a guess: not found, several candidates, or gone meanwhile.
//! What is missing on purpose: `lock.acquire()` without `with` (no trace of the holder exists),
//! locks held by suspended coroutines (see `waits_for`), and semaphores. Objects that take a lock
//! when they are entered are in `managers`.

pub(crate) mod held;
pub(crate) mod joins;
pub(crate) mod managers;
pub(crate) mod wait_object;

use crate::python_stacks::frames::frame::RawFrame;
use crate::python_stacks::layout::object;
use crate::python_stacks::layout::words::{read_each, word_at};
use crate::python_stacks::locks::wait_object::{HowKnown, LockHolder, WaitedFor, THREADING};
use crate::python_stacks::objects::sorts::Sort;
use crate::python_stacks::reader::PythonStacks;
use crate::python_stacks::types::PyThread;

/// The lock object is searched in this many innermost frames of the waiter.
const WAITER_FRAMES: usize = 4;
/// The holder's `with` is searched in this many innermost frames of every thread.
const HOLDER_FRAMES: usize = 512;
const QUEUE: &str = "/queue.py";
/// Functions that call the function of a thread.
const THREADS: [&str; 3] = ["run", "_bootstrap", "_bootstrap_inner"];

enum Lock {
    Plain(usize),
    Recursive {
        lock: usize,
        owner: u64,
    },
    /// An object with a lock of its own inside: a `SimpleQueue`, up to 3.12.
    Inside(usize),
}

impl PythonStacks {
    /// Finds the object that `waiter`, in a futex wait at `futex`, waits for, and its holder.
    /// `threads` are all threads; `waits` returns whether the thread with a native id is known to
    /// wait on this same futex. None: no known object. Costs a walk of every stack for a plain
    /// lock: call it once a wait, not once a sample.
    pub fn waited_for(
        &mut self,
        waiter: &PyThread,
        futex: u64,
        threads: &[PyThread],
        waits: &dyn Fn(u32) -> bool,
    ) -> Option<WaitedFor> {
        let waiter = &self.innermost(waiter);
        if let Some(joined) = self.joined(waiter, threads) {
            return Some(joined);
        }
        match self.lock_waited_for(waiter, futex as usize) {
            Some(Lock::Recursive { lock, owner }) => {
                let holder = threads.iter().find(|thread| thread.ident == owner && owner != 0);
                let holder = holder.filter(|holder| holder.tid != waiter.tid);
                let known = |t: &PyThread| LockHolder { tid: t.tid, how: HowKnown::OwnerField };
                Some(WaitedFor { object: lock, holder: holder.map(known) })
            }
            Some(Lock::Plain(_)) if self.waits_for_notice() => self.gives_notice(),
            Some(Lock::Plain(lock)) => {
                let holder = self.holder_by_with(waiter, lock, threads, waits);
                // The lock must still be the one waited for; otherwise the walk compared an old
                // with a new lock.
                let still = self.is_waited_for(lock, futex as usize);
                still.then_some(WaitedFor { object: lock, holder })
            }
            Some(Lock::Inside(object)) => Some(WaitedFor { object, holder: None }),
            None => self.gives_notice(),
        }
    }

    /// The only thread inside a `with` block of `lock`, which `waiter` waits for.
    fn holder_by_with(
        &mut self,
        waiter: &PyThread,
        lock: usize,
        threads: &[PyThread],
        waits: &dyn Fn(u32) -> bool,
    ) -> Option<LockHolder> {
        let others = threads.iter().filter(|t| t.tid != waiter.tid && !waits(t.tid));
        let mut holder = None;
        for thread in others {
            if self.is_inside_with(thread, lock) {
                if holder.is_some() {
                    return None;
                }
                holder = Some(self.runner(thread));
            }
        }
        holder.map(|tid| LockHolder { tid, how: HowKnown::WithBlock })
    }

    /// Whether the thread that was walked last waits for a Condition's notice: its lock is one that
    /// it made and acquired itself, and that no other thread ever holds.
    fn waits_for_notice(&self) -> bool {
        let leaf = self.walker.frames.first().and_then(|leaf| self.function(leaf));
        leaf.is_some_and(|(file, name)| file.ends_with(THREADING) && name == "wait")
    }

    /// The object that the thread that was walked last waits for notice of: its `wait` is a method
    /// of a Condition, which may be an Event's, a Barrier's, a Semaphore's, a queue's; the
    /// outermost of these is what the program knows.
    fn gives_notice(&self) -> Option<WaitedFor> {
        let (leaf, _) = self.walker.frames.first().and_then(|leaf| self.function(leaf))?;
        let folder = leaf.strip_suffix(THREADING).filter(|_| self.waits_for_notice())?;
        let of_library = |frame: &&RawFrame| {
            let function = self.function(frame).filter(|(_, name)| !THREADS.contains(name));
            let file = function.and_then(|(file, _)| file.strip_prefix(folder));
            file.is_some_and(|file| file == THREADING || file == QUEUE)
        };
        let own = |frame: &RawFrame| self.slots(frame, 0, 1).first().copied();
        let frames = self.walker.frames.iter().take_while(of_library);
        let object = frames.filter_map(own).last().filter(|object| is_address(*object))?;
        Some(WaitedFor { object, holder: None })
    }

    fn lock_waited_for(&mut self, waiter: &PyThread, futex: usize) -> Option<Lock> {
        if futex == 0 {
            return None;
        }
        self.walk_known(waiter.state, WAITER_FRAMES).ok()?;
        if self.objects.parks_on_locks() {
            if let Some(lock) = self.parked_on(futex) {
                return Some(lock);
            }
        }
        let mut candidates = Vec::new();
        for frame in &self.walker.frames {
            candidates.extend(self.slots(frame, 0, self.locals_of(frame).unwrap_or(0)));
            candidates.extend(self.value_stack(frame));
        }
        tidy(&mut candidates);
        let mut heads = Vec::new();
        read_each(&self.mem, &candidates, 32, &mut heads);
        let found = self.lock_among(&candidates, &heads, futex);
        let found = found.or_else(|| self.queue_among(&candidates, &heads, futex));
        if found.is_some() {
            return found;
        }
        let mut bound: Vec<usize> = heads
            .chunks_exact(32)
            .filter(|head| word_at(head, object::TYPE) == self.types.builtin_method)
            .map(|head| word_at(head, object::METHOD_SELF))
            .collect();
        tidy(&mut bound);
        read_each(&self.mem, &bound, 32, &mut heads);
        self.lock_among(&bound, &heads, futex)
    }

    /// The lock whose waiter sleeps on the futex: the entry that it made for the parking lot, on
    /// its own stack, has the address of the lock's word in front of the futex (3.14 and later).
    fn parked_on(&self, futex: usize) -> Option<Lock> {
        let word = self.mem.word(futex.wrapping_sub(8)).ok()?;
        let lock = word.wrapping_sub(object::LOCK_WORD);
        let mut head = [0u8; 32];
        self.mem.read(lock, &mut head).ok().filter(|()| is_address(lock))?;
        self.lock_of(lock, &head)
    }

    /// Whether the lock is the one that the waiter on the futex waits for, now.
    fn is_waited_for(&self, lock: usize, futex: usize) -> bool {
        let place = lock.wrapping_add(object::LOCK_WORD);
        let (at, wanted) = match self.objects.parks_on_locks() {
            true => (futex.wrapping_sub(8), place),
            false => (place, futex),
        };
        self.mem.word(at).is_ok_and(|word| word == wanted)
    }

    /// The lock with this head.
    fn lock_of(&self, lock: usize, head: &[u8]) -> Option<Lock> {
        if word_at(head, object::REFERENCES) == 0 {
            return None;
        }
        match word_at(head, object::TYPE) {
            kind if kind == self.types.lock => Some(Lock::Plain(lock)),
            kind if kind == self.types.rlock => {
                let owner = word_at(head, object::LOCK_OWNER) as u64;
                Some(Lock::Recursive { lock, owner })
            }
            _ => None,
        }
    }

    fn lock_among(&self, objects: &[usize], heads: &[u8], futex: usize) -> Option<Lock> {
        let heads = objects.iter().zip(heads.chunks_exact(32));
        let mut waited_for = heads.filter(|(_, head)| word_at(head, object::LOCK_WORD) == futex);
        waited_for.find_map(|(lock, head)| self.lock_of(*lock, head))
    }

    /// The queue written in C whose `get` is waited in: up to 3.12 it has a lock inside, where a
    /// lock object has its own; later every waiter has a semaphore of its own, and the queue must
    /// be the only one there.
    fn queue_among(&mut self, objects: &[usize], heads: &[u8], futex: usize) -> Option<Lock> {
        let mut found = None;
        for (address, head) in objects.iter().zip(heads.chunks_exact(32)) {
            let kind = self.objects.type_in(&self.mem, &self.layout, head);
            if kind.is_none_or(|kind| kind.sort != Sort::SimpleQueue) {
                continue;
            }
            if word_at(head, object::LOCK_WORD) == futex {
                return Some(Lock::Inside(*address));
            }
            match found {
                None => found = Some(*address),
                Some(_) => return None,
            }
        }
        found.filter(|_| self.objects.has_parking_lots()).map(Lock::Inside)
    }

    fn is_inside_with(&mut self, thread: &PyThread, lock: usize) -> bool {
        if self.walk_known(thread.state, HOLDER_FRAMES).is_err() {
            return false;
        }
        let mut kept = Vec::new();
        for frame in &self.walker.frames {
            kept.extend(self.kept_slots(frame));
            // No pair of two frames.
            kept.push(0);
        }
        if !self.layout.has_tags() {
            tidy(&mut kept);
            let mut heads = Vec::new();
            read_each(&self.mem, &kept, 32, &mut heads);
            if heads.chunks_exact(32).any(|head| self.is_exit_of(head, lock)) {
                return true;
            }
        } else if self.keeps_exit_of(&kept, lock) {
            return true;
        }
        let exits = self.exits(&kept);
        self.is_inside_manager(&exits, lock)
    }
}

/// Leaves only what can be the address of an object, each once.
fn tidy(words: &mut Vec<usize>) {
    words.retain(|word| is_address(*word));
    words.sort_unstable();
    words.dedup();
}

fn is_address(word: usize) -> bool {
    word > 4096 && word % 8 == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::python_stacks::by_hand::ByHand;

    const V3_14: u32 = 0x030e_0af0;

    #[test]
    fn the_parking_entry_in_front_of_the_futex_names_the_lock() {
        let mut memory = ByHand::new(V3_14);
        let types = memory.stacks.types;
        let plain = memory.object(types.lock, &[3, 0]);
        let recursive = memory.object(types.rlock, &[3, 0x7f00, 1]);
        let other = memory.object(types.code, &[3, 0]);
        let found = |memory: &mut ByHand, lock: usize| {
            let entry = memory.words(&[0, lock + object::LOCK_WORD, 0]);
            let futex = entry + 16;
            (memory.stacks.parked_on(futex), memory.stacks.is_waited_for(lock, futex))
        };
        assert!(matches!(found(&mut memory, plain), (Some(Lock::Plain(l)), true) if l == plain));
        assert!(matches!(
            found(&mut memory, recursive),
            (Some(Lock::Recursive { lock, owner: 0x7f00 }), true) if lock == recursive
        ));
        assert!(matches!(found(&mut memory, other), (None, _)), "another type");
        memory.put(plain, 0);
        assert!(matches!(found(&mut memory, plain), (None, _)), "freed");
        assert!(memory.stacks.parked_on(8).is_none(), "not mapped");
    }
}
