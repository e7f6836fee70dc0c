//! The tables of a capture in parts take the memory of a part. A binary of its own: its allocator
//! counts for the whole process.
#![allow(clippy::expect_used, missing_docs)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Cursor;
use std::sync::atomic::{AtomicUsize, Ordering};

use capture::read::{Capture, Parts, Wanted};
use golden::large;
use tables::{Divided, Halt, InParts, Limit, Source, Table};

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call is passed on to the system's allocator as it is; the counters are no part of
// what an allocator promises.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Relaxed: the counters order nothing.
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        // Relaxed: as above.
        MOST.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller's promise about the layout.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // Relaxed: as above.
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise: the block is of this allocator, with this layout.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The largest number of bytes that `run` has at once, beyond those before.
fn most_bytes(run: impl FnOnce()) -> usize {
    // Relaxed: one thread.
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    run();
    MOST.load(Ordering::Relaxed) - before
}

fn limit() -> Limit {
    Box::new(|_| 100_000_000)
}

struct All<'b> {
    parts: Parts<Cursor<&'b [u8]>>,
    capture: Capture,
}

impl InParts for All<'_> {
    fn each(
        &mut self,
        wanted: Wanted,
        each: &mut dyn FnMut(&mut Capture) -> Result<(), Halt>,
    ) -> Result<(), Halt> {
        self.parts.again_for(wanted)?;
        while self.parts.next(&mut self.capture)? {
            each(&mut self.capture)?;
        }
        Ok(())
    }

    fn last(&mut self) -> &mut Capture {
        &mut self.capture
    }
}

fn in_parts(bytes: &[u8], table: &Table) {
    let (parts, capture) = Parts::parse(bytes, 1 << 14).expect("a capture");
    let judged = Source::new(Capture::default(), String::new(), limit());
    let mut all = All { parts, capture };
    let mut divided =
        Divided::new(&mut all, String::new(), limit(), (judged, 0)).expect("readable");
    divided.write(table, &mut |_| Ok(())).expect("rows");
}

fn in_whole(bytes: &[u8], table: &Table) {
    let source = Source::new(Capture::parse(bytes).expect("a capture"), String::new(), limit());
    table.write(&source, &mut |_| Ok(())).expect("rows");
}

#[test]
fn tables_of_a_capture_in_parts_take_the_memory_of_a_part() {
    let (bytes, _) = large::write(Vec::new(), 4).expect("written");
    // One in the order of time, one of several sections, one whose rows wait, by thread.
    for name in ["requests", "attributes", "waits"] {
        let table = tables::named(name).expect("a table");
        let parts = most_bytes(|| in_parts(&bytes, table));
        let whole = most_bytes(|| in_whole(&bytes, table));
        // What is left is a batch of rows.
        assert!(whole > 3 * parts, "{name}: {whole} in whole, {parts} in parts");
    }
}
