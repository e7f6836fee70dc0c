//! Threads that run code in subinterpreters: which of their states run, and which called which.
//!
//! How it works: a thread has one state in each interpreter it ever ran code in. Running code in
//! another interpreter swaps the state under the running thread: the caller's frames stay where
//! they are, frozen in the call, and the called code's frames are on the other state. When it
//! returns, that state has no frames any more. So the states with frames are those in use, and
//! together they are the stack:
//!
//! ```text
//!   state in the subinterpreter:   read < <module>            innermost
//!   state in the main interpreter: run_it < handle < main     outermost
//! ```
//!
//! The GIL cannot separate them. While the thread waits it holds none; up to 3.11 its holder is not
//! updated by a swap; from 3.12 on each interpreter may have its own.
//!
//! The order of calls is known from the C stack, which both share and which grows downwards: the
//! loop that runs the inner frames is below that of the outer ones. Up to 3.12 it also shows whose
//! the frames are: `run_string` uses the state that the interpreter was made with, which names the
//! thread that made it, not the one that runs it. A stack is below its thread's `pthread_t`; the
//! main thread's is above all.
//!
//! | version | where the C stack shows |
//! | --- | --- |
//! | 3.9 | nowhere: see below |
//! | 3.10 | `PyThreadState.cframe` |
//! | 3.11, 3.12 | the same, which also leads to the innermost frame |
//! | 3.13 to 3.15 | the entry trampoline under the innermost frames |
//!
//! The states of subinterpreters are listed at each sample, since on 3.13 each call makes one; once
//! a pass if there are many.
//!
//! What it promises: frames of several states are joined only if the callers' did not move
//! meanwhile, and never those of two threads. As long as there is one interpreter it costs two
//! guarded reads a pass.
//!
//! What is missing on purpose: on 3.9 the newer interpreter's frames are taken as called by the
//! older one's, by the thread that made it, and only while that thread is in a `run_string`. The
//! stack of a thread that runs code in an interpreter made by another one ends at its caller there.

use crate::python_stacks::frames::frame::OWNED_BY_INTERPRETER;
use crate::python_stacks::layout::words::{read_each, word_at};
use crate::python_stacks::layout::{Layout, ABSENT, STATE_HEAD};
use crate::python_stacks::reader::{PythonStacks, CODE_GONE, TRIES};
use crate::python_stacks::types::{Frame, Outcome, PyThread, Torn};

use sys::mem::Reader;

/// Attempts at a stack whose thread runs on through code that was not known, or from one coroutine
/// into another: an attempt learns code and makes the next one quick.
const STACK_TRIES: usize = 4;
/// With more states of subinterpreters than this, only states that name the thread themselves are
/// read.
const MOST_STATES: usize = 256;
/// Up to this many are listed at each sample.
const FEW_STATES: usize = 32;
/// An entry trampoline is searched under this many frames.
const MOST_FRAMES: usize = 256;

/// The position of a state with frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub state: usize,
    /// Its innermost frame, and the code and instruction there.
    frame: usize,
    at: (usize, usize),
    /// An address on the C stack of the loop that runs it, 0 if it is not known.
    c_stack: usize,
}

impl Place {
    /// The state's place, `None` if it has no frames. `head`: a copy of the state.
    fn read(mem: &Reader, layout: &Layout, state: usize, head: &[u8]) -> Option<Place> {
        let first = word_at(head, layout.thread_frame);
        let mut frame = first;
        if layout.cframe_frame != ABSENT {
            frame = mem.word(first.wrapping_add(layout.cframe_frame)).unwrap_or(0);
        }
        if frame == 0 || frame == word_at(head, layout.thread_base_frame) {
            return None;
        }
        let c_stack = match (layout.cframe_frame, layout.thread_cframe) {
            (ABSENT, ABSENT) if layout.has_chunks() => trampoline(mem, layout, frame).unwrap_or(0),
            (ABSENT, ABSENT) => 0,
            (ABSENT, offset) => word_at(head, offset),
            _ => first,
        };
        let word = |offset: usize| mem.word(frame.wrapping_add(offset)).unwrap_or(0);
        let code = layout.untagged(word(layout.frame_code));
        let at = (code, word(layout.frame_instruction));
        Some(Place { state, frame, at, c_stack })
    }
}

/// The trampoline that the innermost frames were entered by.
fn trampoline(mem: &Reader, layout: &Layout, mut frame: usize) -> Option<usize> {
    for _ in 0..MOST_FRAMES {
        let mut owner = [0u8; 1];
        mem.read(frame.wrapping_add(layout.frame_owner), &mut owner).ok()?;
        if owner[0] == OWNED_BY_INTERPRETER {
            return Some(frame);
        }
        frame = mem.word(frame.wrapping_add(layout.frame_previous)).ok().filter(|f| *f != 0)?;
    }
    None
}

/// Whether only the innermost frames can have moved between the two reads.
fn callers_waited(before: &[Place], after: &[Place]) -> bool {
    let states = |places: &[Place]| places.iter().map(|p| p.state).collect::<Vec<_>>();
    states(before) == states(after) && before.get(1..) == after.get(1..)
}

impl PythonStacks {
    /// Reads one thread's stack into `out`, innermost frame first, at most `max_frames`.
    pub fn stack(
        &mut self,
        thread: &PyThread,
        max_frames: usize,
        out: &mut Vec<Frame>,
    ) -> Result<Outcome, Torn> {
        self.counters.stacks += 1;
        let result = match self.threads.has_several(&self.mem, &self.layout) {
            false => self.stack_of(thread.state, max_frames, out),
            true => self.stack_through_interpreters(thread, max_frames, out),
        };
        match result {
            Ok(outcome) => self.counters.unsettled_stacks += u64::from(!outcome.settled),
            Err(_) => {
                out.clear();
                self.counters.torn_stacks += 1;
            }
        }
        result
    }

    /// The native id of the thread that holds the main interpreter's GIL now.
    pub fn gil_holder(&mut self) -> Option<u32> {
        let gil = self.threads.gil(&self.mem, &self.layout)?;
        if !gil.locked || gil.holder == 0 {
            return None;
        }
        let runner = self.runner_of(gil.holder);
        runner.or_else(|| self.threads.tid_of(&self.mem, &self.layout, gil.holder))
    }

    /// The states of a thread that have frames, innermost first.
    fn running(&mut self, thread: &PyThread) -> Result<Vec<Place>, Torn> {
        if self.threads.foreign().len() <= FEW_STATES {
            let list = |_| self.threads.refresh_foreign(&self.mem, &self.layout);
            (0..TRIES).map(list).find(Result::is_ok).ok_or(Torn("interpreter gone"))??;
        }
        let foreign = self.threads.foreign();
        let lying = self.layout.ids_may_lie() && foreign.len() <= MOST_STATES;
        let own = |t: &&PyThread| t.tid == thread.tid;
        let mut candidates: Vec<PyThread> =
            foreign.iter().filter(|t| lying || own(t)).copied().collect();
        let theirs = candidates.len();
        let of_main = |t: &&PyThread| own(t) && !self.threads.is_foreign(t.state);
        candidates.extend(self.threads.seen.iter().filter(of_main));
        let states: Vec<usize> = candidates.iter().map(|t| t.state).collect();
        let mut heads = Vec::new();
        read_each(&self.mem, &states, STATE_HEAD, &mut heads);
        let mut places = Vec::new();
        for (i, (of, head)) in candidates.iter().zip(heads.chunks_exact(STATE_HEAD)).enumerate() {
            // A list may be old: the state may be gone, or another thread's.
            if word_at(head, self.layout.thread_ident) as u64 != of.ident {
                continue;
            }
            let Some(place) = Place::read(&self.mem, &self.layout, of.state, head) else {
                continue;
            };
            let runs_it = match place.c_stack {
                address if i < theirs && self.layout.ids_may_lie() && address != 0 => {
                    self.threads.owner_of_stack(address) == Some(thread.tid)
                }
                _ => own(&of),
            };
            if runs_it {
                places.push(place);
            }
        }
        self.tidy(&mut places)?;
        Ok(places)
    }

    /// Puts them in order, and leaves out or refuses what may be another thread's.
    fn tidy(&self, places: &mut Vec<Place>) -> Result<(), Torn> {
        if places.iter().all(|place| place.c_stack != 0) {
            places.sort_by_key(|place| place.c_stack);
            // A thread that is not listed yet may have its stack where another one's seems to be.
            let joins = places.iter().any(|place| self.threads.is_foreign(place.state));
            if self.layout.ids_may_lie() && joins && self.threads.is_old(&self.mem, &self.layout) {
                return Err(Torn("interpreter entered by a new thread"));
            }
        } else if self.layout.ids_may_lie() {
            // Newest interpreter first, as listed. The thread that made one need not be the one
            // that runs it.
            let calls = places.windows(2).rposition(|two| !self.runs_a_string(&two[1]));
            places.drain(..calls.map_or(0, |last| last + 1));
        }
        Ok(())
    }

    /// Whether a frame object has the function on its value stack that runs code in another
    /// interpreter.
    fn runs_a_string(&self, place: &Place) -> bool {
        let size = self.mem.word(place.at.0.wrapping_add(self.layout.code_stack_size));
        let size = size.unwrap_or(0) as u32 as usize;
        let stack = self.mem.word(place.frame.wrapping_add(self.layout.frame_value_stack));
        let mut slots = vec![0u8; size.min(64) * 8];
        if stack.and_then(|stack| self.mem.read(stack, &mut slots)).is_err() {
            return false;
        }
        let mut words = slots.chunks_exact(8).map(|slot| word_at(slot, 0));
        words.any(|word| self.is_builtin(word, b"run_string\0"))
    }

    /// The thread as the state that runs its innermost frames.
    pub(crate) fn innermost(&mut self, thread: &PyThread) -> PyThread {
        if !self.threads.has_several(&self.mem, &self.layout) {
            return *thread;
        }
        let running = self.running(thread).unwrap_or_default();
        running.first().map_or(*thread, |place| PyThread { state: place.state, ..*thread })
    }

    /// The thread that runs a state's frames.
    pub(crate) fn runner(&self, thread: &PyThread) -> u32 {
        self.runner_of(thread.state).unwrap_or(thread.tid)
    }

    /// The same for a state that may name the wrong thread.
    pub(crate) fn runner_of(&self, state: usize) -> Option<u32> {
        if !self.layout.ids_may_lie() || !self.threads.is_foreign(state) {
            return None;
        }
        let mut head = [0u8; STATE_HEAD];
        self.mem.read(state, &mut head).ok()?;
        let place = Place::read(&self.mem, &self.layout, state, &head)?;
        Some(place.c_stack)
            .filter(|a| *a != 0)
            .and_then(|address| self.threads.owner_of_stack(address))
    }

    /// The stack that hangs on one state, by several tries.
    pub(crate) fn stack_of(
        &mut self,
        state: usize,
        max_frames: usize,
        out: &mut Vec<Frame>,
    ) -> Result<Outcome, Torn> {
        self.running.forget();
        let mut result = Err(CODE_GONE);
        for _ in 0..STACK_TRIES {
            result = self.stack_once(state, max_frames, out);
            if result.is_ok() {
                self.note_generators(state);
                break;
            }
        }
        result
    }

    /// The stack of a thread in a process with several interpreters.
    pub(crate) fn stack_through_interpreters(
        &mut self,
        thread: &PyThread,
        max_frames: usize,
        out: &mut Vec<Frame>,
    ) -> Result<Outcome, Torn> {
        let mut result = Err(Torn("went in or out of an interpreter"));
        for _ in 0..STACK_TRIES {
            result = self.joined_once(thread, max_frames, out);
            if result.is_ok() {
                break;
            }
        }
        result
    }

    /// The same where there are several interpreters. A program that is run again and again is
    /// compiled again and again: its code objects get each other's addresses, and look the same. So
    /// they are verified at each reading, and in a subinterpreter the outermost frame, which exists
    /// as long as the program runs, must still be there afterwards.
    fn stack_of_one(
        &mut self,
        state: usize,
        max_frames: usize,
        out: &mut Vec<Frame>,
    ) -> Result<Outcome, Torn> {
        self.codes.begin_pass();
        let outcome = self.stack_of(state, max_frames, out)?;
        if self.threads.is_foreign(state) && !outcome.truncated {
            let before = self.walker.root(&self.layout, state);
            self.walker.again(&self.mem, &self.layout, state, max_frames.saturating_add(1))?;
            if before != self.walker.root(&self.layout, state) {
                return Err(Torn("program ended meanwhile"));
            }
        }
        Ok(outcome)
    }

    fn joined_once(
        &mut self,
        thread: &PyThread,
        max_frames: usize,
        out: &mut Vec<Frame>,
    ) -> Result<Outcome, Torn> {
        out.clear();
        let before = self.running(thread)?;
        let without = before.is_empty().then_some(thread.state);
        let mut part = Vec::new();
        let mut whole = Outcome { truncated: false, settled: true };
        for state in before.iter().map(|place| place.state).chain(without) {
            // The limit is the same each time; otherwise the stack kept from the sample before is
            // of no use.
            let read = self.stack_of_one(state, max_frames, &mut part)?;
            let room = part.len().min(max_frames - out.len());
            out.extend_from_slice(&part[..room]);
            whole.truncated |= read.truncated || room < part.len();
            whole.settled &= read.settled;
            if whole.truncated {
                break;
            }
        }
        match callers_waited(&before, &self.running(thread)?) {
            true => Ok(whole),
            false => {
                self.running.forget();
                Err(Torn("went in or out of an interpreter"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_innermost_frames_may_move_while_a_stack_is_put_together() {
        let place = |state, frame, instruction| Place {
            state,
            frame,
            at: (1, instruction),
            c_stack: 4096 - state,
        };
        let (inner, outer) = (place(2, 20, 1), place(1, 10, 1));
        assert!(callers_waited(&[inner, outer], &[inner, outer]));
        assert!(callers_waited(&[inner, outer], &[place(2, 21, 2), outer]));
        assert!(!callers_waited(&[inner, outer], &[inner, place(1, 10, 2)]), "the caller went on");
        assert!(!callers_waited(&[inner, outer], &[outer]), "it returned");
        assert!(!callers_waited(&[outer], &[inner, outer]), "it was entered");
        assert!(callers_waited(&[], &[]));
    }
}
