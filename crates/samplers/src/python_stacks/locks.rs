//! Who holds the lock that a thread waits for.
//!
//! How it works: a thread blocked in a `threading.Lock` or `RLock` sits in a futex whose address is
//! the lock's own semaphore. The lock object is found among the locals and the value stack of the
//! waiter's innermost frames, or as the object that a builtin method there is bound to; its lock
//! word must equal the futex. An `RLock` names its owner. A plain `Lock` does not, but `with lock:`
//! keeps the bound `__exit__` on the holder's value stack until the body is left:
//!
//! ```text
//!   holder's frame:  | locals | ... | __exit__ of lock | what the body pushed | stale slots
//!                             ^ value stack             ^ depth the handler of the body keeps
//! ```
//!
//! Slots above the live stack keep what was there before, so only those are believed which the
//! handler around the frame's current instruction keeps (3.11+: exception table; before: the block
//! stack). That is exact: within the body there always is such a handler, after it there is none.
//!
//! What it promises: `None` rather than a guess: not found, several candidates, or gone meanwhile.
//! Objects that took the lock when they were entered: see `managers`.
//! What is missing on purpose: `lock.acquire()` without `with` (no trace of the holder exists), locks held
//! by suspended coroutines (see `waits_for`), and semaphores.

use super::blocks::kept_depth;
use super::frames::RawFrame;
use super::layout::object;
use super::words::{int_at, read_each, word_at};
use super::{PyThread, PythonStacks};

/// The lock object is looked for in this many innermost frames of the waiter.
const WAITER_FRAMES: usize = 4;
/// The holder's `with` is looked for in this many innermost frames of every thread.
const HOLDER_FRAMES: usize = 512;
/// Slots read of one frame.
const MAX_SLOTS: usize = 512;
/// The size of one `PyTryBlock` and where its stack level is (up to 3.10).
const BLOCK: (usize, usize) = (12, 8);

/// How the holder of a lock is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HowKnown {
    /// The lock itself names its owner (`RLock`).
    OwnerField,
    /// The thread is inside the lock's `with` block (plain `Lock`).
    WithBlock,
    /// It is no lock: the thread is the one whose end `Thread.join` waits for.
    Joined,
}

/// The thread that holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockHolder {
    /// The holder's native id.
    pub tid: u32,
    /// How that is known.
    pub how: HowKnown,
    /// The address of the lock object, or of the `Thread`.
    pub lock: usize,
}

enum Lock {
    Plain(usize),
    Recursive { lock: usize, owner: u64 },
}

impl PythonStacks {
    /// Finds who holds the lock that `waiter`, in a futex wait at `futex`, waits for, or whose end. `threads` are
    /// all threads; `waits` tells of a native id whether that thread is known to wait on this same
    /// futex. Costs a walk of every stack for a plain lock: ask once a wait, not once a sample.
    pub fn lock_holder(
        &mut self,
        waiter: &PyThread,
        futex: u64,
        threads: &[PyThread],
        waits: &dyn Fn(u32) -> bool,
    ) -> Option<LockHolder> {
        let waiter = &self.innermost(waiter);
        if let Some(joined) = self.joined(waiter, threads) {
            return Some(joined);
        }
        match self.lock_waited_for(waiter, futex as usize)? {
            Lock::Recursive { lock, owner } => {
                let holder = threads.iter().find(|thread| thread.ident == owner)?;
                let known = owner != 0 && holder.tid != waiter.tid;
                known.then_some(LockHolder { tid: holder.tid, how: HowKnown::OwnerField, lock })
            }
            Lock::Plain(_) if self.is_in_condition() => None,
            Lock::Plain(lock) => {
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
                // The lock must still be the one waited for, or the walk compared old with new.
                let word = self.mem.word(lock.wrapping_add(object::LOCK_WORD)).ok()?;
                let tid = holder.filter(|_| word == futex as usize)?;
                Some(LockHolder { tid, how: HowKnown::WithBlock, lock })
            }
        }
    }

    /// Whether the thread that was walked last waits for a Condition's notice: that is a lock of its own, which it
    /// has taken itself and nobody else ever will.
    fn is_in_condition(&self) -> bool {
        let leaf = self.walker.frames.first().and_then(|frame| self.codes.id(frame.code));
        let info = leaf.and_then(|id| self.codes.get(id)).map(|code| &code.info);
        info.is_some_and(|info| {
            let name = info.qualname.rsplit('.').next();
            info.file.ends_with("threading.py") && name == Some("wait")
        })
    }

    fn lock_waited_for(&mut self, waiter: &PyThread, futex: usize) -> Option<Lock> {
        if futex == 0 {
            return None;
        }
        self.walk_known(waiter.state, WAITER_FRAMES).ok()?;
        let mut candidates = Vec::new();
        for frame in &self.walker.frames {
            candidates.extend(self.slots(frame, 0, self.locals_of(frame).unwrap_or(0)));
            candidates.extend(self.value_stack(frame));
        }
        tidy(&mut candidates);
        let mut heads = Vec::new();
        read_each(&self.mem, &candidates, 32, &mut heads);
        let found = self.lock_among(&candidates, &heads, futex);
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

    fn lock_among(&self, objects: &[usize], heads: &[u8], futex: usize) -> Option<Lock> {
        for (lock, head) in objects.iter().zip(heads.chunks_exact(32)) {
            let alive = word_at(head, object::REFERENCES) != 0;
            if !alive || word_at(head, object::LOCK_WORD) != futex {
                continue;
            }
            let kind = word_at(head, object::TYPE);
            if kind == self.types.lock {
                return Some(Lock::Plain(*lock));
            }
            if kind == self.types.rlock {
                let owner = word_at(head, object::LOCK_OWNER) as u64;
                return Some(Lock::Recursive { lock: *lock, owner });
            }
        }
        None
    }

    fn is_inside_with(&mut self, thread: &PyThread, lock: usize) -> bool {
        if self.walk_known(thread.state, HOLDER_FRAMES).is_err() {
            return false;
        }
        let mut kept = Vec::new();
        for frame in &self.walker.frames {
            kept.extend(self.kept_slots(frame));
        }
        tidy(&mut kept);
        let mut heads = Vec::new();
        read_each(&self.mem, &kept, 32, &mut heads);
        heads.chunks_exact(32).any(|head| self.is_exit_of(head, lock))
            || self.is_inside_manager(&kept, &heads, lock)
    }

    /// What lies on the value stack as long as the `with`s that the frame is in last.
    pub(super) fn kept_slots(&self, frame: &RawFrame) -> Vec<usize> {
        match self.depth_kept(frame).unwrap_or(0) {
            0 => Vec::new(),
            depth => self.slots(frame, self.locals_of(frame).unwrap_or(0), depth),
        }
    }

    /// All of a frame's value stack, also what is left in slots above the live ones.
    pub(super) fn value_stack(&self, frame: &RawFrame) -> Vec<usize> {
        let locals = self.locals_of(frame).unwrap_or(0);
        let room = match self.codes.id(frame.code).and_then(|id| self.codes.get(id)) {
            Some(code) => code.stack_size,
            None => 0,
        };
        self.slots(frame, locals, room)
    }

    /// True for the head of a live builtin method `__exit__` bound to `lock`.
    pub(super) fn is_exit_of(&self, head: &[u8], lock: usize) -> bool {
        let bound = word_at(head, object::REFERENCES) != 0
            && word_at(head, object::TYPE) == self.types.builtin_method
            && word_at(head, object::METHOD_SELF) == lock;
        if !bound {
            return false;
        }
        let definition = word_at(head, object::METHOD_DEFINITION);
        let Ok(name) = self.mem.word(definition) else {
            return false;
        };
        let mut text = [0u8; 9];
        self.mem.read(name, &mut text).is_ok() && &text == b"__exit__\0"
    }

    /// How many slots of the value stack are certainly alive.
    fn depth_kept(&self, frame: &RawFrame) -> Option<usize> {
        if self.layout.has_chunks() {
            let code = self.codes.get(self.codes.id(frame.code)?)?;
            return Some(kept_depth(&code.exceptions, frame.offset).min(MAX_SLOTS));
        }
        let mut count = [0u8; 4];
        let place = frame.address.wrapping_add(self.layout.frame_block_count);
        self.mem.read(place, &mut count).ok()?;
        let innermost = usize::try_from(int_at(&count, 0)).ok()?.checked_sub(1)?;
        let blocks = frame.address.wrapping_add(self.layout.frame_blocks);
        let mut level = [0u8; 4];
        let place = blocks.wrapping_add(innermost.min(19) * BLOCK.0 + BLOCK.1);
        self.mem.read(place, &mut level).ok()?;
        Some(usize::try_from(int_at(&level, 0)).ok()?.min(MAX_SLOTS))
    }

    /// How many slots lie in front of the value stack.
    fn locals_of(&self, frame: &RawFrame) -> Option<usize> {
        if self.layout.has_chunks() {
            return Some(self.codes.get(self.codes.id(frame.code)?)?.locals);
        }
        let place = frame.address.wrapping_add(self.layout.frame_value_stack);
        let stack = self.mem.word(place).ok()?;
        let locals = stack.wrapping_sub(frame.address.wrapping_add(self.layout.frame_locals)) / 8;
        Some(locals).filter(|locals| *locals < 1 << 16)
    }

    pub(super) fn slots(&self, frame: &RawFrame, first: usize, count: usize) -> Vec<usize> {
        let start = frame.address.wrapping_add(self.layout.frame_locals).wrapping_add(first * 8);
        let count = count.min(MAX_SLOTS);
        self.walker.words(&self.mem, start, count).unwrap_or_default()
    }
}

/// Leaves only what can be the address of an object, each once.
fn tidy(words: &mut Vec<usize>) {
    words.retain(|word| *word > 4096 && word % 8 == 0);
    words.sort_unstable();
    words.dedup();
}
