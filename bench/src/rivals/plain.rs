//! The limit: two raw clock reads and one 32-byte record in a ring of the thread's own. No names,
//! no switch, no reader that finds its begin; no recorder can cost less.
//!
//! Also the ring under the two minimal `tracing` recorders, so that their cost beyond it is that of
//! `tracing` itself.

use std::cell::Cell;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::{Rival, Setup};
use crate::machine;

/// As dashcam's own: see `sys::turns`.
const TURN: Duration = Duration::from_micros(80);
const CHUNK_WORDS: usize = 64 * 1024 / 8;

struct Parts {
    words: &'static [AtomicU64],
    part_words: usize,
    next: AtomicUsize,
}

static PARTS: OnceLock<Parts> = OnceLock::new();

#[derive(Clone, Copy)]
struct Own {
    part: Option<&'static [AtomicU64]>,
    at: usize,
}

thread_local! {
    static OWN: Cell<Own> = const { Cell::new(Own { part: None, at: 0 }) };
}

/// Makes the ring: a part for each core, which threads take in turn.
pub fn make_ring(bytes: usize) {
    PARTS.get_or_init(|| {
        let part_words = (bytes / 8 / machine::cpus().len()).next_power_of_two();
        let zeros = (0..part_words * machine::cpus().len()).map(|_| AtomicU64::new(0));
        let words = Vec::leak(zeros.collect());
        Parts { words, part_words, next: AtomicUsize::new(0) }
    });
}

#[cold]
fn take_part() -> Option<&'static [AtomicU64]> {
    let parts = PARTS.get()?;
    let count = parts.words.len() / parts.part_words;
    let begin = parts.next.fetch_add(1, Relaxed) % count * parts.part_words;
    Some(&parts.words[begin..begin + parts.part_words])
}

/// Stores one record of four words; relaxed, as a recorder must that is copied while it writes.
#[inline]
pub fn store(record: [u64; 4]) {
    OWN.with(|own| {
        let Own { part, at } = own.get();
        let Some(part) = part.or_else(take_part) else { return };
        let at = at & (part.len() - 4);
        for (slot, word) in part[at..at + 4].iter().zip(record) {
            slot.store(word, Relaxed);
        }
        own.set(Own { part: Some(part), at: at + 4 });
    });
}

/// The ring -> fresh memory -> a file.
pub fn dump_ring(path: &Path) -> std::io::Result<u64> {
    let words = PARTS.get().map_or(&[][..], |parts| parts.words);
    if std::env::var_os("BENCH_TURNS").is_some() {
        return dump_in_turns(words, path);
    }
    let copy: Vec<u64> = words.iter().map(|w| w.load(Relaxed)).collect();
    // SAFETY: any bytes of initialised words may be read.
    let bytes = unsafe { std::slice::from_raw_parts(copy.as_ptr().cast(), copy.len() * 8) };
    File::create(path)?.write_all(bytes)?;
    Ok(bytes.len() as u64)
}

/// The same in parts, asleep for as long as each part took: the effect of a dump of these bytes on
/// others while it leaves them half of its CPU.
fn dump_in_turns(words: &[AtomicU64], path: &Path) -> std::io::Result<u64> {
    let mut file = File::create(path)?;
    let mut begin = Instant::now();
    for chunk in words.chunks(CHUNK_WORDS) {
        let copy: Vec<u8> = chunk.iter().flat_map(|w| w.load(Relaxed).to_ne_bytes()).collect();
        file.write_all(&copy)?;
        let turn = begin.elapsed();
        if turn > TURN {
            std::thread::sleep(turn);
            begin = Instant::now();
        }
    }
    Ok(words.len() as u64 * 8)
}

/// The limit.
#[derive(Clone, Copy)]
pub struct Plain;

impl Rival for Plain {
    type Scope = ();
    const HAS_OFF: bool = false;
    const HAS_DUMP: bool = true;

    fn off() -> Plain {
        Plain
    }

    fn on(setup: &Setup) -> Plain {
        make_ring(setup.ring_bytes);
        Plain
    }

    fn scope(&self) {}

    #[inline]
    fn span<T>(&self, rows: u64, inside: impl FnOnce() -> T) -> T {
        let begin = machine::rdtsc();
        let result = inside();
        store([1, begin, machine::rdtsc(), rows]);
        result
    }

    #[inline]
    fn event(&self, rows: u64) {
        store([2, machine::rdtsc(), 0, rows]);
    }

    fn dump(&self, path: &Path) -> std::io::Result<u64> {
        dump_ring(path)
    }
}
