//! Stacks of 3.14 and 3.15 in the test's own memory: tagged references, trampolines, the sentinel.

use super::*;
use crate::python_stacks::frames::chunk_copies::USUAL_CHUNK;
use crate::python_stacks::frames::frame::{CHUNK_HEAD, OWNED_BY_INTERPRETER, OWNED_BY_THREAD};

const V3_14: u32 = 0x030e_0af0;
const V3_15: u32 = 0x030f_02f0;
/// Words of a frame with a few slots.
const FRAME: usize = 16;
const CODES: [usize; 3] = [0x1_0000, 0x2_0000, 0x3_0000];
const NONE: usize = 0x9_0000;

/// A thread state with one chunk, in which frames lie one behind the other.
struct Thread {
    layout: Layout,
    state: Vec<usize>,
    chunk: Vec<usize>,
    frames: usize,
    trampoline: Vec<usize>,
    sentinel: Vec<usize>,
    generator: Vec<usize>,
}

fn at(words: &[usize]) -> usize {
    words.as_ptr() as usize
}

fn put(words: &mut [usize], offset: usize, value: usize) {
    words[offset / 8] = value;
}

/// Fills in a frame. `code`: with its tag.
fn fill(layout: &Layout, frame: &mut [usize], code: usize, owner: u8, previous: usize) {
    put(frame, layout.frame_code, code);
    put(frame, layout.frame_previous, previous);
    put(frame, layout.frame_instruction, (code & !3) + layout.code_instructions + 24);
    put(frame, layout.frame_owner, usize::from(owner) << (8 * (layout.frame_owner % 8)));
}

impl Thread {
    fn new(version_hex: u32) -> Thread {
        let layout = Layout::of(version_hex).expect("a known version");
        let empty = || vec![0; FRAME];
        let mut thread = Thread {
            layout,
            state: vec![0; 40],
            chunk: vec![0; USUAL_CHUNK / 8],
            frames: 0,
            trampoline: empty(),
            sentinel: empty(),
            generator: empty(),
        };
        thread.chunk[1] = USUAL_CHUNK;
        let (chunk, sentinel) = (at(&thread.chunk), at(&thread.sentinel));
        put(&mut thread.state, layout.thread_chunk, chunk);
        if layout.thread_base_frame != ABSENT {
            fill(&layout, &mut thread.sentinel, NONE | 1, OWNED_BY_INTERPRETER, 0);
            put(&mut thread.state, layout.thread_base_frame, sentinel);
        }
        thread
    }

    /// What the outermost frame was called from.
    fn end(&self) -> usize {
        if self.layout.thread_base_frame == ABSENT {
            0
        } else {
            at(&self.sentinel)
        }
    }

    fn enter(&mut self, frame: usize) {
        put(&mut self.state, self.layout.thread_frame, frame);
        let top = at(&self.chunk) + CHUNK_HEAD + self.frames * FRAME * 8;
        put(&mut self.state, self.layout.thread_chunk_top, top);
    }

    /// A call; its frame.
    fn call(&mut self, code: usize, previous: usize) -> usize {
        let start = CHUNK_HEAD / 8 + self.frames * FRAME;
        self.frames += 1;
        fill(&self.layout, &mut self.chunk[start..start + FRAME], code, 0, previous);
        let frame = at(&self.chunk[start..]);
        self.enter(frame);
        frame
    }

    fn walk(&self, walker: &mut Walker) -> Result<Vec<(usize, i64)>, Torn> {
        let mem = Reader::new().expect("a process may read itself");
        walker.walk(&mem, &self.layout, at(&self.state), 100)?;
        Ok(walker.frames.iter().map(|frame| (frame.code, frame.offset)).collect())
    }
}

fn walker() -> Walker {
    Walker::new().expect("address space")
}

#[test]
fn tags_are_no_part_of_a_code_objects_address() {
    for version in [V3_14, V3_15] {
        let mut thread = Thread::new(version);
        let outer = thread.call(CODES[0], thread.end());
        thread.call(CODES[1] | 1, outer);
        assert_eq!(thread.walk(&mut walker()), Ok(vec![(CODES[1], 24), (CODES[0], 24)]));
    }
}

/// A trampoline's word for its code is None, and its owner differs in 3.14 and 3.15.
#[test]
fn frames_of_the_interpreter_itself_are_none_of_the_program() {
    for (version, owner) in [(V3_14, 3), (V3_14, 4), (V3_15, 3)] {
        let mut thread = Thread::new(version);
        let outer = thread.call(CODES[0], thread.end());
        fill(&thread.layout.clone(), &mut thread.trampoline, NONE | 1, owner, outer);
        let trampoline = at(&thread.trampoline);
        thread.call(CODES[1], trampoline);
        assert_eq!(thread.walk(&mut walker()), Ok(vec![(CODES[1], 24), (CODES[0], 24)]));
    }
}

#[test]
fn a_generators_frame_outside_of_the_chunks_is_read() {
    for version in [V3_14, V3_15] {
        let mut thread = Thread::new(version);
        let outer = thread.call(CODES[0], thread.end());
        fill(&thread.layout.clone(), &mut thread.generator, CODES[2], OWNED_BY_GENERATOR, outer);
        thread.enter(at(&thread.generator));
        assert_eq!(thread.walk(&mut walker()), Ok(vec![(CODES[2], 24), (CODES[0], 24)]));
    }
}

/// A chain that was read while a call returned leads somewhere else.
#[test]
fn a_stack_of_3_15_that_ends_in_a_frame_of_the_program_is_torn() {
    for (version, torn) in [(V3_14, false), (V3_15, true)] {
        let mut thread = Thread::new(version);
        let outer = thread.call(CODES[0], 0);
        thread.call(CODES[1], outer);
        assert_eq!(thread.walk(&mut walker()).is_err(), torn);
    }
}

/// A generator that yielded while it was read has no caller any more, in any version.
#[test]
fn a_stack_that_ends_in_a_generators_frame_lacks_its_root() {
    for (owner, lacks) in [(OWNED_BY_GENERATOR, true), (GENERATORS_OBJECT, true), (0, false)] {
        let mut walker = walker();
        walker.take(&[RawFrame { address: 64, code: CODES[0], offset: 24, owner }]);
        assert_eq!(walker.lacks_root(0), lacks, "{owner}");
    }
}

/// greenlet begins a stack with nothing below its first trampoline.
#[test]
fn a_greenlets_stack_ends_in_its_trampoline() {
    for version in [V3_14, V3_15] {
        let mut thread = Thread::new(version);
        fill(&thread.layout.clone(), &mut thread.trampoline, NONE | 1, OWNED_BY_INTERPRETER, 0);
        let trampoline = at(&thread.trampoline);
        thread.call(CODES[0], trampoline);
        assert_eq!(thread.walk(&mut walker()), Ok(vec![(CODES[0], 24)]));
    }
}

/// What greenlet makes of a stack to switch away from it: the outermost frame has no caller, and
/// its frame object has the address that was there.
fn cut_by_greenlet(owner: u8) -> (Thread, usize, Vec<usize>) {
    let mut thread = Thread::new(V3_15);
    let outer = thread.call(CODES[0], 0);
    thread.call(CODES[1], outer);
    let mut object = vec![0; FRAME];
    put(&mut object, thread.layout.frame_object_frame, outer);
    put(&mut object, thread.layout.frame_object_data, at(&thread.trampoline));
    let (layout, start) = (thread.layout, CHUNK_HEAD / 8);
    let frame = &mut thread.chunk[start..start + FRAME];
    fill(&layout, frame, CODES[0], owner, 0);
    put(frame, layout.frame_object, at(&object));
    (thread, outer, object)
}

#[test]
fn a_stack_that_greenlet_switches_away_from_is_whole() {
    let (thread, _, _object) = cut_by_greenlet(OWNED_BY_THREAD);
    assert_eq!(thread.walk(&mut walker()), Ok(vec![(CODES[1], 24), (CODES[0], 24)]));
}

/// Memory of a frame that was left, or that greenlet never cut: its object names another frame,
/// has no link, or is none. A generator without a caller may have yielded.
#[test]
fn a_stack_that_greenlet_did_not_cut_is_torn() {
    let torn = |thread: &Thread| thread.walk(&mut walker()) == Err(Torn("stack without its end"));
    let (thread, outer, mut object) = cut_by_greenlet(OWNED_BY_THREAD);
    put(&mut object, thread.layout.frame_object_frame, outer + FRAME * 8);
    assert!(torn(&thread), "another frame's object");
    let (thread, _, mut object) = cut_by_greenlet(OWNED_BY_THREAD);
    put(&mut object, thread.layout.frame_object_data, 0);
    assert!(torn(&thread), "an object without a link");
    let (mut thread, _, _object) = cut_by_greenlet(OWNED_BY_THREAD);
    put(&mut thread.chunk[CHUNK_HEAD / 8..], thread.layout.frame_object, 0);
    assert!(torn(&thread), "a frame without an object");
    let (thread, _, _object) = cut_by_greenlet(OWNED_BY_GENERATOR);
    assert!(torn(&thread), "a generator's frame");
}

/// The innermost frame is the sentinel, or none: a greenlet that has called nothing yet.
#[test]
fn a_thread_of_3_15_without_python_code_has_no_frames_and_needs_no_chunk() {
    let mut thread = Thread::new(V3_15);
    put(&mut thread.state, thread.layout.thread_chunk, 0);
    for innermost in [at(&thread.sentinel), 0] {
        thread.enter(innermost);
        put(&mut thread.state, thread.layout.thread_chunk_top, 0);
        assert_eq!(thread.walk(&mut walker()), Ok(Vec::new()));
    }
}

/// The next sample compares the words as they are, tags included.
#[test]
fn a_kept_stack_with_tags_is_the_same_until_a_word_of_it_changes() {
    let mem = Reader::new().expect("a process may read itself");
    let (mut thread, mut walker, gil) = (Thread::new(V3_15), walker(), [0usize; 8]);
    let outer = thread.call(CODES[0] | 1, thread.end());
    thread.call(CODES[1], outer);
    let (layout, state) = (thread.layout, at(&thread.state));
    let extent = Extent { address: at(&gil), length: 32 };
    assert!(thread.walk(&mut walker).is_ok());
    assert!(walker.keep(&layout, (state, extent), 100, Shown::default()));
    assert!(walker.again(&mem, &layout, state, 100).is_ok() && walker.is_same());
    let inner = CHUNK_HEAD / 8 + FRAME;
    thread.chunk[inner + layout.frame_code / 8] = CODES[2];
    assert!(walker.again(&mem, &layout, state, 100).is_ok() && !walker.is_same());
    assert_eq!(walker.frames.first().map(|frame| frame.code), Some(CODES[2]));
}
