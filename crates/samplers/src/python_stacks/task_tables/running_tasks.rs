//! The tasks that ran lately: what one sample of the running task leaves for the next one.
//!
//! What it promises: at most `MOST_LATELY` tasks; nothing in it is trusted, `running` reads all of
//! it again.

use crate::python_stacks::frames::frame::RawFrame;
use crate::python_stacks::layout::object;
use crate::python_stacks::layout::words::{int_at, word_at};
use crate::python_stacks::objects::sorts::Sort;
use crate::python_stacks::task_tables::task_layout::TaskLayout;

/// Tasks remembered.
const MOST_LATELY: usize = 32;

/// What is kept from one sample to the next, and buffers that are used again.
pub(crate) struct RunningMemory {
    pub minor: u32,
    /// Of the stack read last, innermost first.
    pub generators: Vec<RawFrame>,
    /// The innermost frame of that stack: it may move while its callers stay.
    pub innermost: usize,
    /// The thread state that it hangs on.
    pub state: usize,
    /// The address of the dict's keys at the last sample.
    pub keys: usize,
    /// Tasks found lately; the next one takes the place of the oldest.
    pub lately: Vec<Found>,
    pub next: usize,
    /// Types that exist as long as the process.
    pub types: Vec<(usize, Sort)>,
    pub values: Vec<usize>,
    pub bytes: Vec<u8>,
    pub name: String,
}

/// A task, from its own words.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub task: usize,
    pub kind: usize,
    pub coroutine: usize,
    pub name: usize,
}

/// A task and what it runs.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    pub one: Candidate,
    pub coroutine: usize,
    /// The coroutine's frame.
    pub frame: RawFrame,
}

impl Candidate {
    /// None: it is freed, done or half made.
    pub fn of(task: usize, layout: &TaskLayout, head: &[u8]) -> Option<Candidate> {
        let found = Candidate {
            task,
            kind: word_at(head, object::TYPE),
            coroutine: word_at(head, layout.coroutine),
            name: word_at(head, layout.name),
        };
        let lives = word_at(head, object::REFERENCES) != 0 && int_at(head, layout.state) == 0;
        (lives && found.coroutine != 0 && found.name != 0).then_some(found)
    }
}

impl RunningMemory {
    pub fn new(version_hex: u32) -> RunningMemory {
        RunningMemory {
            minor: (version_hex >> 16) & 0xff,
            generators: Vec::new(),
            innermost: 0,
            state: 0,
            keys: 0,
            lately: Vec::new(),
            next: 0,
            types: Vec::new(),
            values: Vec::new(),
            bytes: Vec::new(),
            name: String::new(),
        }
    }

    /// Remembers a task for the next sample.
    pub fn keep(&mut self, found: Found) {
        let known = self.lately.iter().position(|old| old.frame.address == found.frame.address);
        match known {
            Some(at) => self.lately[at] = found,
            None if self.lately.len() < MOST_LATELY => self.lately.push(found),
            None => {
                self.lately[self.next] = found;
                self.next = (self.next + 1) % MOST_LATELY;
            }
        }
    }

    /// Another stack is about to be read.
    pub fn forget(&mut self) {
        self.generators.clear();
    }
}
