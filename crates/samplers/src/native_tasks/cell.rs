//! One task: what its last poll waited for, in memory that the sampler reads from outside.
//!
//! How it works: the thread that polls the task is the only writer. The version is odd from the
//! begin of a poll to its end, and stays so when the task is done. A reader copies the words and
//! the bytes they point to by guarded reads, and the words once more: only if the version was even
//! and the same is the copy of one suspension. The first word holds the cell's own address, so that
//! memory which was given to something else is no cell.
//!
//! What it promises: no reader makes a writer wait. Memory that was freed is not followed further
//! than guarded reads go.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use sys::mem::Reader;
use sys::own_stack::{Base, Registers};

/// Awaits kept of one poll (a `select!`, a time limit beside a call); the first ones.
pub const MOST_AWAITS: usize = 4;
/// Bytes of stack kept of one await, and of one task.
const MOST_STACK_BYTES: usize = 16 << 10;
/// See `MOST_STACK_BYTES`.
pub const MOST_BYTES: usize = 24 << 10;
/// Bytes kept of all tasks; beyond these a task's awaits are not known.
pub const MOST_KEPT_BYTES: usize = 16 << 20;

/// Bytes that are kept now. Relaxed: a count of its own.
static KEPT_BYTES: AtomicUsize = AtomicUsize::new(0);

const MAGIC: u64 = 0xda5c_a30f_7a5c_0001;
/// Words of one await: registers, begin and length of its bytes.
const AWAIT_WORDS: usize = 5;
const FIXED_WORDS: usize = 6;
const WORDS: usize = FIXED_WORDS + MOST_AWAITS * AWAIT_WORDS;

/// Where each fixed word is.
const OWN: usize = 0;
const REQUEST: usize = 1;
const VERSION: usize = 2;
const LEFT_NS: usize = 3;
const BYTES: usize = 4;
const COUNT: usize = 5;

/// What a task awaits, for the sampler. Its address is its identity: it must not move.
#[repr(C, align(64))]
pub struct TaskCell {
    /// Written by the thread that polls the task. Relaxed but for the version: see `suspended`.
    words: [AtomicU64; WORDS],
}

impl TaskCell {
    /// Of a task that works for `request`; not to be read until `suspended`.
    pub fn new(request: u64) -> TaskCell {
        let cell = TaskCell { words: [const { AtomicU64::new(0) }; WORDS] };
        cell.put(REQUEST, request);
        cell.put(VERSION, 1);
        cell
    }

    /// Its identity.
    pub fn address(&self) -> u64 {
        std::ptr::from_ref(self) as u64
    }

    /// The task is polled, or done: it is not to be read. True: it was suspended.
    pub fn polled(&self) -> bool {
        let version = self.get(VERSION);
        if version % 2 == 0 {
            self.put(VERSION, version + 1);
            // The odd version is visible before anything that is written next.
            std::sync::atomic::fence(Ordering::SeqCst);
        }
        version % 2 == 0
    }

    /// The poll has ended, and the task waits for `awaits` from `now_ns` on.
    pub fn suspended(&self, awaits: &Awaits, now_ns: u64) {
        self.put(OWN, self.address() ^ MAGIC);
        self.put(LEFT_NS, now_ns);
        self.put(BYTES, awaits.bytes.as_ptr() as u64);
        self.put(COUNT, awaits.count as u64);
        for (i, one) in awaits.list[..awaits.count].iter().enumerate() {
            let Await { at, begin, length } = *one;
            let words = [at.sp, at.pc, at.fp, begin as u64, length as u64];
            for (k, word) in words.into_iter().enumerate() {
                self.put(FIXED_WORDS + i * AWAIT_WORDS + k, word);
            }
        }
        // Release: the even version is visible after all of it.
        self.words[VERSION].store(self.get(VERSION) + 1, Ordering::Release);
    }

    /// How often it was polled and suspended so far, times two.
    pub fn version(&self) -> u64 {
        self.words[VERSION].load(Ordering::Acquire)
    }

    fn get(&self, word: usize) -> u64 {
        self.words[word].load(Ordering::Relaxed)
    }

    fn put(&self, word: usize, value: u64) {
        self.words[word].store(value, Ordering::Relaxed);
    }
}

impl Drop for TaskCell {
    fn drop(&mut self) {
        self.put(OWN, 0);
        self.polled();
    }
}

#[derive(Clone, Copy, Default)]
struct Await {
    at: Registers,
    begin: usize,
    length: usize,
}

/// The stacks of what one poll waited for, as they are collected.
#[derive(Default)]
pub struct Awaits {
    bytes: Vec<u8>,
    list: [Await; MOST_AWAITS],
    count: usize,
}

impl Awaits {
    /// Forgets them: another poll begins.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds the stack of the caller, up to the mark: its index. None: there is no room.
    #[inline(never)]
    pub fn add(&mut self, base: &Base<'_>) -> Option<usize> {
        let room = MOST_BYTES.saturating_sub(self.bytes.len()).min(MOST_STACK_BYTES);
        let index = self.count;
        if index == MOST_AWAITS || room == 0 || is_full() {
            return None;
        }
        let (begin, had) = (self.bytes.len(), self.bytes.capacity());
        let at = base.copy(&mut self.bytes, room);
        KEPT_BYTES.fetch_add(self.bytes.capacity() - had, Ordering::Relaxed);
        self.list[index] = Await { at: at?, begin, length: self.bytes.len() - begin };
        self.count += 1;
        Some(index)
    }
}

impl Drop for Awaits {
    fn drop(&mut self) {
        KEPT_BYTES.fetch_sub(self.bytes.capacity(), Ordering::Relaxed);
    }
}

/// Whether all tasks together keep as many bytes as they may.
pub fn is_full() -> bool {
    KEPT_BYTES.load(Ordering::Relaxed) >= MOST_KEPT_BYTES
}

/// A suspended task, as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suspended {
    /// The version that was read: while a cell's is the same, so is the rest.
    pub version: u64,
    /// Since when.
    pub left_ns: u64,
    /// What it awaits: registers, and the bytes of the stack from the stack pointer on.
    pub awaits: Vec<(Registers, Vec<u8>)>,
}

/// Reads the cell at `address`. `known`: a version whose stacks need not be read again. None: it
/// works for another request, is polled at this instant, or is gone.
pub fn read(mem: &Reader, address: u64, request: u64, known: u64) -> Option<Suspended> {
    let words = words(mem, address)?;
    let version = words[VERSION];
    let is_own = words[OWN] == address ^ MAGIC && words[REQUEST] == request;
    if !is_own || version % 2 != 0 {
        return None;
    }
    let mut found = Suspended { version, left_ns: words[LEFT_NS], awaits: Vec::new() };
    if version == known {
        return Some(found);
    }
    for one in words[FIXED_WORDS..].chunks_exact(AWAIT_WORDS).take(words[COUNT] as usize) {
        let at = Registers { sp: one[0], pc: one[1], fp: one[2] };
        let (begin, length) = (one[3], (one[4] as usize).min(MOST_STACK_BYTES));
        let mut bytes = vec![0; length];
        mem.read(words[BYTES].wrapping_add(begin) as usize, &mut bytes).ok()?;
        found.awaits.push((at, bytes));
    }
    let again = self::words(mem, address)?;
    (again == words).then_some(found)
}

fn words(mem: &Reader, address: u64) -> Option<[u64; WORDS]> {
    let mut bytes = [0; WORDS * 8];
    mem.read(address as usize, &mut bytes).ok()?;
    let mut words = [0; WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = bytes.try_into().map(u64::from_ne_bytes).unwrap_or(0);
    }
    Some(words)
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    use sys::own_stack::from_here;

    use super::*;

    fn suspended(cell: &TaskCell, awaits: &mut Awaits, count: usize) {
        cell.polled();
        awaits.clear();
        from_here(|base| (0..count).for_each(|_| assert!(awaits.add(base).is_some())));
        cell.suspended(awaits, 7);
    }

    #[test]
    fn a_suspended_task_is_read_and_a_polled_one_is_not() {
        let mem = Reader::new().expect("guarded reads");
        let (cell, mut awaits) = (Box::new(TaskCell::new(5)), Awaits::default());
        let at = cell.address();
        assert_eq!(read(&mem, at, 5, 0), None, "not suspended yet");
        suspended(&cell, &mut awaits, 2);
        let found = read(&mem, at, 5, 0).expect("a suspended task");
        assert_eq!((found.version, found.left_ns, found.awaits.len()), (2, 7, 2));
        let whole = |(at, bytes): &(Registers, Vec<u8>)| at.sp % 8 == 0 && bytes.len() > 64;
        assert!(found.awaits.iter().all(whole), "{found:?}");
        assert_eq!(read(&mem, at, 5, 2).map(|s| s.awaits.len()), Some(0), "known already");
        assert_eq!(read(&mem, at, 6, 0), None, "another request's");
        assert!(cell.polled());
        assert_eq!(read(&mem, at, 5, 0), None, "it is polled");
        suspended(&cell, &mut awaits, 1);
        assert_eq!(read(&mem, at, 5, 2).map(|s| s.version), Some(4));
        drop(cell);
        assert_eq!(read(&mem, at, 5, 0), None, "it is gone");
        assert_eq!(read(&mem, 8, 5, 0), None, "nothing is mapped there");
    }

    #[test]
    fn the_first_awaits_are_kept_and_their_memory_is_counted() {
        let mut awaits = Awaits::default();
        let before = KEPT_BYTES.load(Ordering::Relaxed);
        from_here(|base| {
            let indices: Vec<_> = (0..6).map(|_| awaits.add(base)).collect();
            assert_eq!(indices, [Some(0), Some(1), Some(2), Some(3), None, None]);
        });
        assert!(KEPT_BYTES.load(Ordering::Relaxed) > before);
        drop(awaits);
        assert_eq!(KEPT_BYTES.load(Ordering::Relaxed), before);
    }
}
