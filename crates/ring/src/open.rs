//! Open spans: begun and not ended. A capture, and a box whose process was killed, show them.
//!
//! How it works: the region has a fixed number of *lines*, one for each thread that has spans, each
//! with room for `format::region::OPEN_SPANS` of them. A thread claims a line at its first span and
//! frees it when it ends. Lines of threads that died without freeing them (a raw exit) are freed
//! when no line is left and the kernel says that those threads are dead. A span that begins takes
//! the next free place of its thread's line, in a round, so nothing has to be kept in order when
//! spans end in any order.
//!
//! ```text
//!  line    owner: tid (32) | serial (32), 0 free, all ones: changes hands | 3 words unused
//!          | places
//!  place   begin, 0 free | name (32) | request | unused
//! ```
//! What it promises: three relaxed stores and one release store when a span begins, a load and a
//! store when it ends. No lock, no allocation, async-signal-safe. A copy never shows a place that
//! is a mix of two spans, nor a span under another thread (`models.rs`).
//!
//! What is missing on purpose: spans beyond the room of a line, and spans of threads that got no
//! line, are counted by the caller and not shown while they are open.

use format::block::{pack_pair, unpack_pair};
use format::region::{
    OPEN_CHANGING, OPEN_HEAD_WORDS, OPEN_LINE_WORDS, OPEN_PLACE_WORDS, OPEN_SPANS,
};

use crate::present::Area;
use crate::sync::{fence, AtomicU64, Ordering};
use crate::{Name, Region};

/// A thread's line, as the thread keeps it.
#[derive(Clone, Copy)]
pub struct OpenLine {
    words: &'static [AtomicU64; OPEN_LINE_WORDS],
    /// Index of the line's first word in the region.
    at: u32,
}

/// A span's place: what its holder keeps until the end. 0: it has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenPlace(u32);

impl OpenPlace {
    /// No place: nothing has to be done at the end.
    pub const NONE: OpenPlace = OpenPlace(0);

    /// As a number, for bindings.
    pub fn number(self) -> u32 {
        self.0
    }

    /// From `number`. A wrong number does no harm: `close_open` checks what lies there.
    pub fn from_number(number: u32) -> OpenPlace {
        OpenPlace(number)
    }
}

/// The place behind the one at this word of a line; behind the last, the first.
#[inline]
fn after(at: usize) -> usize {
    match at + OPEN_PLACE_WORDS {
        end if end >= OPEN_LINE_WORDS => OPEN_HEAD_WORDS,
        next => next,
    }
}

impl OpenLine {
    /// The word of a line's first place.
    pub const FIRST: u32 = OPEN_HEAD_WORDS as u32;

    /// Stores a span in the place `next` (a word of the line, first `FIRST`) or the first free one
    /// behind it. Returns the place and the next `next`. None: all are taken.
    #[inline]
    pub fn begin(
        &self,
        next: u32,
        name: Name,
        begin_ns: u64,
        request: u64,
    ) -> Option<(OpenPlace, u32)> {
        let at = (next as usize) % OPEN_LINE_WORDS;
        // Relaxed: only this thread makes a free place a taken one.
        match self.words[at].load(Ordering::Relaxed) {
            0 => Some(self.take(at, name, begin_ns, request)),
            _ => self.search(at, name, begin_ns, request),
        }
    }

    #[inline]
    fn take(&self, at: usize, name: Name, begin_ns: u64, request: u64) -> (OpenPlace, u32) {
        // Release fence: pairs with the acquire fence in `copy_open`: a reader that sees one of the
        // words below sees the 0 before them.
        fence(Ordering::Release);
        let word = |index: usize| &self.words[(at + index) % OPEN_LINE_WORDS];
        word(1).store(u64::from(name), Ordering::Relaxed);
        word(2).store(request, Ordering::Relaxed);
        // Release: pairs with the acquire in `copy_open`: the words above are whole.
        word(0).store(begin_ns, Ordering::Release);
        (OpenPlace(self.at.wrapping_add(at as u32)), after(at) as u32)
    }

    #[cold]
    fn search(
        &self,
        from: usize,
        name: Name,
        begin_ns: u64,
        request: u64,
    ) -> Option<(OpenPlace, u32)> {
        let mut at = from;
        for _ in 1..OPEN_SPANS {
            at = after(at);
            if self.words[at].load(Ordering::Relaxed) == 0 {
                return Some(self.take(at, name, begin_ns, request));
            }
        }
        None
    }

    /// The begin of the span of `request` that began last among this line's open ones.
    pub fn innermost(&self, request: u64) -> Option<u64> {
        self.begins(request).max()
    }

    /// As `innermost`, of the one that began first.
    pub fn outermost(&self, request: u64) -> Option<u64> {
        self.begins(request).min()
    }

    fn begins(&self, request: u64) -> impl Iterator<Item = u64> {
        let places = self.words[OPEN_HEAD_WORDS..].chunks_exact(OPEN_PLACE_WORDS);
        let of = move |place: &&[AtomicU64]| place[2].load(Ordering::Relaxed) == request;
        let begins = places.filter(of).map(|place| place[0].load(Ordering::Relaxed));
        begins.filter(|begin| *begin != 0)
    }
}

/// Empties a line and frees it for any thread.
fn free(line: &[AtomicU64]) {
    let places = line[OPEN_HEAD_WORDS..].chunks_exact(OPEN_PLACE_WORDS);
    places.for_each(|place| place[0].store(0, Ordering::Relaxed));
    // Release: pairs with the acquire in `open_line`: its places are free.
    line[0].store(0, Ordering::Release);
}

impl Region {
    /// A line for the thread `tid`, empty; None: all are in use. Cost: once over the lines at
    /// worst.
    pub fn open_line(&self, tid: u32, serial: u32) -> Option<OpenLine> {
        let layout = self.layout();
        for slot in 0..layout.open_lines {
            if !self.reach(Area::Open, (slot + 1) * OPEN_LINE_WORDS) {
                return None;
            }
            let at = layout.open + slot * OPEN_LINE_WORDS;
            let words: &'static [AtomicU64] = &self.words()[at..at + OPEN_LINE_WORDS];
            let Ok(words) = words.try_into() else { return None };
            let words: &'static [AtomicU64; OPEN_LINE_WORDS] = words;
            let owner = &words[0];
            let ident = pack_pair(tid, serial);
            // Acquire: pairs with the release in `free`: its places are free.
            if owner.load(Ordering::Relaxed) == 0
                && owner.compare_exchange(0, ident, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return Some(OpenLine { words, at: at as u32 });
            }
        }
        None
    }

    /// The thread ends: its open spans are forgotten, and its line goes to the next thread.
    pub fn give_open_line(&self, line: OpenLine) {
        free(line.words);
    }

    /// Frees the lines of threads that are dead, and returns how many. Does this at most once a
    /// second, for the first caller; others get 0. Cost: a system call for each line in use, some
    /// 0.2 us each. Async-signal-safe.
    pub fn bring_back_lines(&self, now_ns: u64) -> usize {
        const EVERY_NS: u64 = 1_000_000_000;
        // Relaxed, both: a turn, which orders nothing.
        let last = self.lines_swept_ns.load(Ordering::Relaxed);
        let due = now_ns.saturating_sub(last) >= EVERY_NS;
        let ours = || {
            let won = Ordering::Relaxed;
            self.lines_swept_ns.compare_exchange(last, now_ns.max(1), won, won).is_ok()
        };
        // Regions of tests have made-up pids and tids.
        let pid = self.header(format::region::word::PID).load(Ordering::Relaxed);
        if !due || pid != u64::from(std::process::id()) || !ours() {
            return 0;
        }
        self.free_lines_of(|tid| !sys::thread::exists(tid))
    }

    /// Frees the lines whose owners `is_dead` says are. A thread that died before this call and
    /// whose id went to another one keeps its line.
    pub(crate) fn free_lines_of(&self, is_dead: impl Fn(u32) -> bool) -> usize {
        let lines = &self.words()[self.layout().open..][..self.present(Area::Open)];
        let mut freed = 0;
        for line in lines.chunks_exact(OPEN_LINE_WORDS) {
            let owner = line[0].load(Ordering::Relaxed);
            if owner == 0 || owner == OPEN_CHANGING || !is_dead(unpack_pair(owner).0) {
                continue;
            }
            // Acquire: the next owner of the line comes after the dead thread's stores. An owner
            // that took it meanwhile has another serial, and keeps it.
            let won = line[0].compare_exchange(
                owner,
                OPEN_CHANGING,
                Ordering::Acquire,
                Ordering::Relaxed,
            );
            if won.is_ok() {
                free(line);
                freed += 1;
            }
        }
        freed
    }

    /// The span that began at `begin_ns` in this place has ended. From any thread. Ignored if the
    /// place has another span by now (its thread ended, or the process was forked).
    #[inline]
    pub fn close_open(&self, place: OpenPlace, begin_ns: u64) {
        if let Some(begin) = self.words().get(place.0 as usize).filter(|_| place.0 != 0) {
            if begin.load(Ordering::Relaxed) == begin_ns {
                // Relaxed: see the fence in `begin`.
                begin.store(0, Ordering::Relaxed);
            }
        }
    }

    /// The spans open now, four words each: name | thread, begin, request, 0.
    pub fn copy_open(&self) -> Vec<u64> {
        let mut out = Vec::new();
        let lines = &self.words()[self.layout().open..][..self.present(Area::Open)];
        for line in lines.chunks_exact(OPEN_LINE_WORDS) {
            let owner = line[0].load(Ordering::Relaxed);
            if owner == 0 || owner == OPEN_CHANGING {
                continue;
            }
            for place in line[OPEN_HEAD_WORDS..].chunks_exact(OPEN_PLACE_WORDS) {
                // Acquire: pairs with the release store in `begin`.
                let begin_ns = place[0].load(Ordering::Acquire);
                let name = place[1].load(Ordering::Relaxed) as u32;
                let request = place[2].load(Ordering::Relaxed);
                // Acquire fence: pairs with the release fence in `begin`.
                fence(Ordering::Acquire);
                // Both are checked again: the place may have another span by now, and the line
                // another owner, whose ident was stored before its words.
                let same = |index: usize, word: u64| line[index].load(Ordering::Relaxed) == word;
                let unchanged = place[0].load(Ordering::Relaxed) == begin_ns && same(0, owner);
                if begin_ns != 0 && unchanged {
                    let (tid, _) = unpack_pair(owner);
                    out.extend([pack_pair(name, tid), begin_ns, request, 0]);
                }
            }
        }
        out
    }
}
