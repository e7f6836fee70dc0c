//! The mapped region: its memory, its header words and its counters.
//!
//! How it works: one mapping, a file in a memory file system where that is possible, so that it
//! survives the process. Its layout is `format::region`; its memory is taken as it is used
//! (`growth`). What it promises: the mapping lives as long as the process, and a forked child sees
//! empty memory in its place.

use std::io;
#[cfg(not(loom))]
use std::path::Path;
use std::path::PathBuf;

use format::block::BLOCK_WORDS;
use format::region::{losses, word, Layout, MAGIC};
use sys::cell::StaticRef;
use sys::nap::Nap;

use crate::present::Present;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Where a region lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In this file of a memory file system: survives the process.
    File(PathBuf),
    /// In memory of the process only, and why no file could be used.
    Process(String),
}

/// No block: the empty entry of the list of left blocks.
pub(crate) const NONE: u32 = u32::MAX;

/// Half-full blocks waiting for a new owner. More than this many at once are simply closed; their
/// free part is lost until they come round again.
#[cfg(not(loom))]
pub(crate) const LEFT_BLOCKS: usize = 128;
#[cfg(loom)]
pub(crate) const LEFT_BLOCKS: usize = 1;

/// The list of left blocks; its parts are cache lines.
#[repr(align(64))]
pub(crate) struct Left(pub(crate) [AtomicU32; LEFT_BLOCKS]);

/// The black box of this process. Made once; the mapping lives as long as the process.
pub struct Region {
    words: &'static [AtomicU64],
    layout: Layout,
    place: Place,
    /// Where it lies since `move_to`. Few: each remains in memory for its readers.
    moved: StaticRef<Place>,
    pub(crate) present: Present,
    /// Block indices, or NONE: half-full blocks that wait for a new owner. A thread that leaves a
    /// block stores it (release); a thread that begins swaps it out (acquire). Of several that read
    /// the same index, the compare-and-swap of the head word decides.
    pub(crate) left: Left,
    /// A thread is taking blocks back; one at a time.
    pub(crate) sweeping: AtomicBool,
    /// When lines of open spans were last brought back from dead threads.
    pub(crate) lines_swept_ns: AtomicU64,
    /// See `idle_nap` and `pass_nap`.
    pub(crate) naps: [Nap; 2],
}

impl Region {
    /// Makes a region of `bytes` at `path` (or the reason why there is none); in process memory
    /// when that fails. Little of it is present: see `growth`. Errors only when even anonymous
    /// memory is refused.
    #[cfg(not(loom))]
    pub fn create(path: Result<PathBuf, String>, bytes: usize, pid: u32) -> io::Result<Region> {
        let why = match path {
            Ok(path) => match Region::in_file(&path, bytes, pid) {
                Ok(region) => return Ok(region),
                Err(error) => format!("{}: {error}", path.display()),
            },
            Err(why) => why,
        };
        let words = sys::map::anonymous(bytes)?;
        let place = Place::Process(why);
        let region = Region::over(words, Layout::of(bytes), place, Present::nothing(), pid);
        if !region.begin() {
            // A kernel that cannot: a page is taken by the first store into it.
            return Ok(Region { present: Present::all(&region.layout), ..region });
        }
        Ok(region)
    }

    #[cfg(not(loom))]
    fn in_file(path: &Path, bytes: usize, pid: u32) -> io::Result<Region> {
        let mapped = sys::map::create(path, bytes)?;
        let (layout, place) = (Layout::of(bytes), Place::File(path.to_owned()));
        if !mapped.in_steps {
            let present = Present::all(&layout);
            return Ok(Region::over(mapped.words, layout, place, present, pid));
        }
        let region = Region::over(mapped.words, layout, place, Present::nothing(), pid);
        if region.begin() {
            return Ok(region);
        }
        let _ = std::fs::remove_file(path);
        Err(io::ErrorKind::StorageFull.into())
    }

    /// A region in anonymous memory, all of which may be used, for tests.
    #[cfg(not(loom))]
    pub fn in_process(bytes: usize, pid: u32, why: &str) -> io::Result<Region> {
        let (words, layout) = (sys::map::anonymous(bytes)?, Layout::of(bytes));
        let (place, present) = (Place::Process(why.to_owned()), Present::all(&layout));
        Ok(Region::over(words, layout, place, present, pid))
    }

    /// A region of few blocks and threads, for the models.
    #[cfg(loom)]
    pub fn for_model(block_count: usize, thread_slots: usize) -> &'static Region {
        Region::for_model_of_spans(block_count, thread_slots, 0)
    }

    /// As `for_model`, with lines of open spans.
    #[cfg(loom)]
    pub fn for_model_of_spans(
        block_count: usize,
        thread_slots: usize,
        open_lines: usize,
    ) -> &'static Region {
        let threads = format::region::HEADER_WORDS;
        let open = threads + thread_slots * format::region::THREAD_WORDS;
        let blocks = open + open_lines * format::region::OPEN_LINE_WORDS;
        let layout = Layout {
            threads,
            thread_slots,
            open,
            open_lines,
            blocks,
            block_count,
            ..Layout::of(0)
        };
        // Only words that are touched cost the model anything; the others are made too, since the
        // slice has no holes.
        let count = blocks + block_count * BLOCK_WORDS;
        let words: Vec<AtomicU64> = (0..count).map(|_| AtomicU64::new(0)).collect();
        let words = Box::leak(words.into_boxed_slice());
        let place = Place::Process("model".to_owned());
        let present = Present::all(&layout);
        Box::leak(Box::new(Region::over(words, layout, place, present, 1)))
    }

    fn over(
        words: &'static [AtomicU64],
        layout: Layout,
        place: Place,
        present: Present,
        pid: u32,
    ) -> Region {
        let bytes = size_of_val(words);
        let region = Region {
            words,
            layout,
            place,
            moved: StaticRef::empty(),
            present,
            left: Left(std::array::from_fn(|_| AtomicU32::new(NONE))),
            sweeping: AtomicBool::new(false),
            lines_swept_ns: AtomicU64::new(0),
            naps: [Nap::new(), Nap::new()],
        };
        // Relaxed: no other thread knows the region yet; handing it to other threads publishes it.
        let set = |index: usize, value: u64| region.words[index].store(value, Ordering::Relaxed);
        set(word::BYTES, bytes as u64);
        set(word::PID, u64::from(pid));
        set(word::START_NS, sys::clock::now_ns());
        set(word::START_EPOCH_NS, sys::clock::epoch_ns());
        set(word::IDS_SEED, sys::random::number());
        set(word::MAGIC, MAGIC);
        region
    }

    /// Where it lies.
    pub fn place(&self) -> &Place {
        self.moved.get().unwrap_or(&self.place)
    }

    /// Gives its file another name in the same file system. The memory stays as it is.
    #[cfg(not(loom))]
    pub fn move_to(&self, path: PathBuf) -> io::Result<()> {
        if let Place::File(old) = self.place() {
            std::fs::rename(old, &path)?;
            self.moved.set(Some(Box::leak(Box::new(Place::File(path)))));
        }
        Ok(())
    }

    /// Its areas.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Bytes of the whole region.
    pub fn bytes(&self) -> usize {
        size_of_val(self.words)
    }

    /// Adds to a loss counter (an index of `format::region::losses`).
    #[inline]
    pub fn lose(&self, loss: usize, count: u64) {
        // Relaxed: a counter; nothing is ordered by it.
        self.words[word::LOSSES + loss].fetch_add(count, Ordering::Relaxed);
    }

    /// All loss counters, in the order of `losses::NAMES`.
    pub fn losses(&self) -> Vec<u64> {
        let at = |i: usize| self.words[word::LOSSES + i].load(Ordering::Relaxed);
        (0..losses::NAMES.len()).map(at).collect()
    }

    /// A header word (an index of `format::region::word`).
    pub fn header(&self, index: usize) -> &AtomicU64 {
        &self.words[index]
    }

    /// In a child of a fork: lays empty memory over its parent's mapping; does nothing in the
    /// process that made the region. The caller must be the only thread.
    #[cfg(not(loom))]
    pub fn release_after_fork(&self) {
        let maker = self.words[word::PID].load(Ordering::Relaxed);
        if maker == u64::from(std::process::id()) {
            return;
        }
        // SAFETY: another process made the region, so this is a forked child, and the thread that
        // forked is the only one that came along. A child that shares its parent's memory (vfork)
        // would take the parent's box away: the C library runs fork hooks in no such child.
        unsafe { sys::map::replace_after_fork(self.words) }
    }

    /// False in a forked child of the process that made it, where it is empty memory.
    pub fn is_there(&self) -> bool {
        self.words[word::MAGIC].load(Ordering::Relaxed) == MAGIC
    }

    pub(crate) fn words(&self) -> &'static [AtomicU64] {
        self.words
    }

    pub(crate) fn block(&self, index: usize) -> &'static [AtomicU64] {
        let at = self.layout.blocks + index * BLOCK_WORDS;
        &self.words[at..at + BLOCK_WORDS]
    }
}
