//! The ring on memory laid out by hand, for each version.

use super::*;
use crate::memory::tests::Laid;

const RUNTIME: u64 = 0x1_0000;
const MAIN: u64 = 0x2_0000;
const THREADS: [u64; 2] = [0x3_0000, 0x3_1000];
const SEMAPHORE: u64 = 0x3_2000;
const IDENT: u64 = 0x7f00_0000_1000;
const TEXT: &str = "try:1\nexcept BaseException:0\n";

/// An interpreter of 3.`minor` with two threads, the main one last in the list, in which no call
/// waits; the cell for the next one is `last`.
fn laid(minor: u32, last: i32) -> (Laid, Interpreter) {
    let memory = Laid::new(RUNTIME, 0x3_0000);
    let layout = Layout::of(minor).expect("a known version");
    memory.put_int(RUNTIME + layout.initialized, 1);
    memory.put(RUNTIME + layout.main_interpreter, MAIN);
    memory.put(RUNTIME + layout.main_thread, IDENT);
    memory.put(MAIN + layout.first_thread, THREADS[0]);
    for (thread, ident, next) in [(THREADS[0], 7, THREADS[1]), (THREADS[1], IDENT, 0)] {
        memory.put(thread + layout.thread_interpreter, MAIN);
        memory.put(thread + layout.thread_ident, ident);
        memory.put(thread + layout.thread_next, next);
    }
    if let Some(limit) = layout.recursion_limit {
        memory.put_int(MAIN + limit, 1000);
    }
    let at = ring_at(&layout);
    match layout.breaker {
        Breaker::Flag(_) => (),
        Breaker::Bit { main_thread, word, .. } => {
            memory.put(MAIN + main_thread, THREADS[1]);
            memory.put(THREADS[1] + word, 0x1_0000_0001);
        }
    }
    match layout.lock {
        Lock::Semaphore(lock) => memory.put(at + lock, SEMAPHORE),
        Lock::Byte(_) => (),
    }
    memory.put_int(SEMAPHORE, 1);
    if let Some(max) = layout.max {
        memory.put_int(at + max, 32);
    }
    memory.put_int(at + layout.first, last);
    memory.put_int(at + layout.last, last);
    (memory, Interpreter { runtime: RUNTIME, minor, version_hex: 0, run_string: 0x55_5000 })
}

fn ring_at(layout: &Layout) -> u64 {
    match layout.pending {
        Place::Runtime(offset) => RUNTIME + offset,
        Place::Interpreter(offset) => MAIN + offset,
    }
}

fn text_at(memory: &Laid, at: u64) -> String {
    let mut bytes = vec![0; TEXT_BYTES as usize];
    memory.read(at, &mut bytes).expect("laid");
    let end = bytes.iter().position(|byte| *byte == 0).expect("a NUL");
    String::from_utf8(bytes[..end].to_vec()).expect("ASCII")
}

#[test]
fn a_call_is_added_where_the_interpreter_looks_for_it_from_any_cell() {
    for minor in 9..=13 {
        let layout = Layout::of(minor).expect("a known version");
        for last in 0..layout.cells as i32 {
            let (memory, interpreter) = laid(minor, last);
            let ring = Ring::find(&memory, interpreter).expect("as expected");
            assert_eq!(memory.writes(), 0, "finding writes nothing");
            let written = ring.write(&memory, TEXT).expect("written");
            let at = ring_at(&layout);
            let cell = at + layout.calls + layout.cell_bytes * last as u64;
            assert_eq!(memory.word(cell).expect("laid"), interpreter.run_string);
            let text = memory.word(cell + 8).expect("laid");
            assert_eq!(text_at(&memory, text), TEXT, "3.{minor}, cell {last}");
            // Inside the ring's cells, and not in the one of the call.
            let cells =
                at + layout.calls..at + layout.calls + layout.cell_bytes * u64::from(layout.cells);
            assert!(cells.contains(&text) && text + TEXT_BYTES <= cells.end);
            assert!(text + TEXT_BYTES <= cell || text >= cell + layout.cell_bytes);
            assert_eq!(memory.int(at + layout.to_do).expect("laid"), 1);
            let next = (last + 1) % layout.cells as i32;
            assert_eq!(memory.int(at + layout.last).expect("laid"), next);
            match layout.breaker {
                Breaker::Flag(flag) => assert_eq!(memory.int(MAIN + flag).expect("laid"), 1),
                Breaker::Bit { word, mask, .. } => {
                    let bits = memory.word(THREADS[1] + word).expect("laid");
                    assert_eq!(bits, 0x1_0000_0001 | mask, "no other bit is lost");
                }
            }
            assert!(ring.waits(&memory, written).expect("laid"));
        }
    }
}

/// If the writer is killed behind any of its writes, the process finds either no call or a whole
/// one.
#[test]
fn each_prefix_of_the_writes_is_harmless() {
    for minor in 9..=13 {
        let layout = Layout::of(minor).expect("a known version");
        let (memory, interpreter) = laid(minor, 3);
        let before = memory.bytes.lock().expect("one thread").clone();
        Ring::find(&memory, interpreter)
            .and_then(|ring| {
                ring.write(&memory, TEXT).map_err(|_| unexpected("ring", "busy", "free"))
            })
            .expect("written");
        let after = memory.bytes.lock().expect("one thread").clone();
        let writes = memory.writes.lock().expect("one thread").clone();
        for count in 0..=writes.len() {
            let mut bytes = before.clone();
            for (at, length) in &writes[..count] {
                let begin = (at - RUNTIME) as usize;
                bytes[begin..begin + length].copy_from_slice(&after[begin..begin + length]);
            }
            *memory.bytes.lock().expect("one thread") = bytes;
            let at = ring_at(&layout);
            let last = memory.int(at + layout.last).expect("laid");
            if last != 3 {
                let cell = at + layout.calls + layout.cell_bytes * 3;
                assert_eq!(memory.word(cell).expect("laid"), interpreter.run_string);
                assert_eq!(text_at(&memory, memory.word(cell + 8).expect("laid")), TEXT);
            } else {
                // Nobody is asked for a call that is not there.
                assert_eq!(memory.int(at + layout.to_do).expect("laid"), 0);
            }
        }
    }
}

#[test]
fn a_held_lock_and_waiting_calls_are_waited_for_and_nothing_is_written() {
    for minor in 9..=13 {
        let layout = Layout::of(minor).expect("a known version");
        let at = ring_at(&layout);
        let busy = |change: &dyn Fn(&Laid)| {
            let (memory, interpreter) = laid(minor, 3);
            let ring = Ring::find(&memory, interpreter).expect("as expected");
            change(&memory);
            let obstacle = ring.write(&memory, TEXT).expect_err("busy");
            assert!(matches!(obstacle, Obstacle::Busy(_)), "3.{minor}: {obstacle:?}");
            assert_eq!(memory.writes(), 0);
        };
        busy(&|memory| match layout.lock {
            Lock::Semaphore(_) => memory.put_int(SEMAPHORE, 0),
            Lock::Byte(lock) => memory.put_int(at + lock, 1),
        });
        busy(&|memory| memory.put_int(at + layout.last, 4));
        if let Some(place) = layout.busy {
            busy(&|memory| memory.put_int(at + place, 1));
        }
    }
}

#[test]
fn a_layout_that_differs_is_refused_before_a_write() {
    for minor in 9..=13 {
        let layout = Layout::of(minor).expect("a known version");
        let at = ring_at(&layout);
        let mut strange: Vec<(u64, u64)> = vec![
            (RUNTIME + layout.initialized, 0),
            (RUNTIME + layout.finalizing, THREADS[1]),
            (RUNTIME + layout.main_thread, IDENT + 8),
            (RUNTIME + layout.main_interpreter, 0),
            (THREADS[0] + layout.thread_interpreter, 0x99),
            (MAIN + layout.first_thread, 0),
            (at + layout.first, 0xffff_ffff),
            (at + layout.to_do, 1 << 20),
        ];
        strange.extend(layout.recursion_limit.map(|limit| (MAIN + limit, 0)));
        strange.extend(layout.max.map(|max| (at + max, 0)));
        match layout.breaker {
            Breaker::Flag(flag) => strange.push((MAIN + flag, 7)),
            Breaker::Bit { main_thread, .. } => strange.push((MAIN + main_thread, RUNTIME)),
        }
        if let Lock::Semaphore(lock) = layout.lock {
            strange.push((at + lock, 0));
        }
        for (place, value) in strange {
            let (memory, interpreter) = laid(minor, 3);
            memory.put(place, value);
            assert!(Ring::find(&memory, interpreter).is_err(), "3.{minor}: {place:#x}");
            assert_eq!(memory.writes(), 0);
        }
    }
}

#[test]
fn a_withdrawn_call_is_an_empty_text_and_the_next_request_takes_its_place() {
    for minor in 9..=13 {
        let (memory, interpreter) = laid(minor, 30);
        let ring = Ring::find(&memory, interpreter).expect("as expected");
        let written = ring.write(&memory, TEXT).expect("written");
        let other = ring.write(&memory, TEXT).expect_err("it waits");
        assert_eq!(other, Obstacle::Busy("other pending calls wait"));
        ring.withdraw(&memory, written).expect("laid");
        assert_eq!(text_at(&memory, written.text), "");
        let ring = Ring::find(&memory, interpreter).expect("as expected");
        assert_eq!(ring.write(&memory, "1\n").expect("in its place"), written);
        assert_eq!(text_at(&memory, written.text), "1\n");
    }
}

#[test]
fn a_call_that_was_made_is_neither_withdrawn_nor_asked_for_again() {
    for minor in 9..=12 {
        let layout = Layout::of(minor).expect("a known version");
        let (memory, interpreter) = laid(minor, 3);
        let ring = Ring::find(&memory, interpreter).expect("as expected");
        let written = ring.write(&memory, TEXT).expect("written");
        let Breaker::Flag(flag) = layout.breaker else { panic!("a flag up to 3.12") };
        // The interpreter has stored a 0 behind the 1, and the call waits.
        memory.put_int(MAIN + flag, 0);
        ring.remind(&memory, written).expect("laid");
        assert_eq!(memory.int(MAIN + flag).expect("laid"), 1);
        // It has made the call.
        memory.put_int(MAIN + flag, 0);
        memory.put_int(ring_at(&layout) + layout.first, 4);
        let writes = memory.writes();
        ring.remind(&memory, written).expect("laid");
        ring.withdraw(&memory, written).expect("laid");
        assert_eq!(memory.writes(), writes);
    }
}
