//! Which part of each area of a region is present: what may be touched.
//!
//! How it works: a number for each area, since areas grow from their begin. `growth` says when.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use format::block::BLOCK_WORDS;
use format::region::{Layout, CODE_WORDS, OPEN_LINE_WORDS, STACK_WORDS, THREAD_WORDS};

/// Words that one step of a table adds: 64 KiB.
pub(crate) const TABLE_STEP: usize = 8192;
/// Words that one step of the blocks adds: 1 MiB.
pub(crate) const BLOCK_STEP: usize = 131_072;

/// An area that grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Area {
    Threads,
    Names,
    Codes,
    Stacks,
    Open,
    Blocks,
}

impl Area {
    pub(crate) const ALL: [Area; 6] =
        [Area::Threads, Area::Names, Area::Codes, Area::Stacks, Area::Open, Area::Blocks];

    /// Its words in the region.
    pub(crate) fn words(self, l: &Layout) -> Range<usize> {
        let (begin, length) = match self {
            Area::Threads => (l.threads, l.thread_slots * THREAD_WORDS),
            Area::Names => (l.names, l.name_bytes / 8),
            Area::Codes => (l.codes, l.code_slots * CODE_WORDS),
            Area::Stacks => (l.stacks, l.stack_slots * STACK_WORDS),
            Area::Open => (l.open, l.open_lines * OPEN_LINE_WORDS),
            Area::Blocks => (l.blocks, l.block_count * BLOCK_WORDS),
        };
        begin..begin + length
    }

    pub(crate) fn step(self) -> usize {
        match self {
            Area::Blocks => BLOCK_STEP,
            _ => TABLE_STEP,
        }
    }
}

/// How much of each area is present.
pub(crate) struct Present {
    /// Words from the area's begin. Only grows. Release: the pages are there; acquire where it is
    /// read.
    words: [AtomicUsize; 6],
    /// The last step was refused: only `grow` and `prepare` ask again. Relaxed: a hint.
    refused: AtomicBool,
}

impl Present {
    /// All of a region.
    pub(crate) fn all(layout: &Layout) -> Present {
        let words = Area::ALL.map(|area| AtomicUsize::new(area.words(layout).len()));
        Present { words, refused: AtomicBool::new(false) }
    }

    /// Nothing yet.
    #[cfg(not(loom))]
    pub(crate) fn nothing() -> Present {
        let words = [const { AtomicUsize::new(0) }; 6];
        Present { words, refused: AtomicBool::new(false) }
    }

    /// Words of an area that are present, from its begin.
    #[inline]
    pub(crate) fn of(&self, area: Area) -> usize {
        self.words[area as usize].load(Ordering::Acquire)
    }

    /// Whether the last step was refused.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// A step up to `words` was taken, or refused.
    #[cfg(not(loom))]
    pub(crate) fn note(&self, area: Area, words: usize, is_taken: bool) {
        self.refused.store(!is_taken, Ordering::Relaxed);
        if is_taken {
            self.words[area as usize].fetch_max(words, Ordering::Release);
        }
    }
}
