//! The reader's state: the memory it reads, the layout there, and all tables of what is known.
//!
//! How it works: every other file adds what it reads as methods, and calls only files below it:
//!
//! ```text
//!   awaits, task_holder, enders                      a suspended task: its await, who ends it
//!   waits_for, greenlet_waits, awaited_tasks, sockets   what it waits for
//!   locks, held, joins, managers                     a thread's lock and its holder
//!   task_chains, greenlets, running, exits, nested   frames of tasks, of several interpreters
//!   one_stack, slots, references                     a stack, the words of a frame, objects
//!   reader                                           this file
//! ```
//!
//! What it promises: `begin_pass` makes every table verify anew what it knows. What is missing on
//! purpose: attaching (`attach`).

use super::codes::Codes;
use super::frame::RawFrame;
use super::layout::Layout;
use super::objects::Objects;
use super::running_tasks::RunningMemory;
use super::searched::Searched;
use super::task_layout::TaskLayout;
use super::threads::{Gil, Threads};
use super::types::{CodeId, CodeInfo, Counters, PyThread, RuntimeInfo, Torn, TypeAddresses};
use super::walker::Walker;
use sys::mem::Reader;

/// How often a moving stack is read again before the last reading is judged.
pub(super) const TRIES: usize = 4;
pub(super) const CODE_GONE: Torn = Torn("code object gone before it was read");

/// The reader. One per process and sampling thread; make a new one after a fork.
pub struct PythonStacks {
    pub(super) mem: Reader,
    pub(super) layout: Layout,
    pub(super) types: TypeAddresses,
    pub(super) tasks: TaskLayout,
    pub(super) objects: Objects,
    pub(super) running: RunningMemory,
    pub(super) threads: Threads,
    pub(super) codes: Codes,
    pub(super) walker: Walker,
    pub(super) previous_frames: Vec<RawFrame>,
    pub(super) unverified: Vec<usize>,
    /// For each frame walked, the number of rows before it.
    pub(super) shown_at: Vec<u32>,
    pub(super) last_gil: Option<Gil>,
    pub(super) searched: Searched,
    pub(super) counters: Counters,
}

impl PythonStacks {
    pub(super) fn with(
        info: &RuntimeInfo,
        mem: Reader,
        layout: Layout,
        threads: Threads,
        walker: Walker,
    ) -> Self {
        PythonStacks {
            codes: Codes::new(info.version_hex, info.types.code, &layout),
            mem,
            layout,
            types: info.types,
            tasks: TaskLayout::of(info.version_hex),
            objects: Objects::new(info.version_hex),
            running: RunningMemory::new(info.version_hex),
            threads,
            walker,
            previous_frames: Vec::new(),
            unverified: Vec::new(),
            shown_at: Vec::new(),
            last_gil: None,
            searched: Searched::default(),
            counters: Counters::default(),
        }
    }

    /// Starts a sampling pass: code objects are verified anew, once each, until the next one.
    pub fn begin_pass(&mut self) {
        self.tasks.learn(&self.mem);
        self.codes.begin_pass();
        self.objects.begin_pass();
        self.walker.begin_pass();
        self.threads.begin_pass();
        self.last_gil = None;
    }

    /// What was refused or lost so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Lists the threads of all interpreters, the main interpreter's last. One guarded read each.
    pub fn threads(&mut self, out: &mut Vec<PyThread>) -> Result<(), Torn> {
        out.clear();
        let mut result = Ok(());
        for _ in 0..TRIES {
            result = self.threads.refresh(&self.mem, &self.layout);
            if result.is_ok() {
                out.extend_from_slice(&self.threads.seen);
                return result;
            }
        }
        self.counters.torn_thread_lists += 1;
        result
    }

    /// Identifies the newest thread of the main interpreter: another answer than at the last
    /// `threads` means that that list is old. Three guarded reads.
    pub fn newest_thread(&self) -> Option<(usize, usize)> {
        self.threads.newest(&self.mem, &self.layout)
    }

    /// True when a thread in a futex wait at `address` waits for a GIL.
    pub fn is_gil_futex(&self, address: u64) -> bool {
        self.threads.is_gil_futex(&self.layout, address as usize)
    }

    /// What is known of a code object.
    pub fn code(&self, id: CodeId) -> Option<&CodeInfo> {
        self.codes.get(id).map(|code| &code.info)
    }

    pub(super) fn code_of(&self, frame: &RawFrame) -> Option<&CodeInfo> {
        self.code(self.codes.id(frame.code)?)
    }

    /// File and plain name of a frame's function.
    pub(super) fn function(&self, frame: &RawFrame) -> Option<(&str, &str)> {
        let info = &self.codes.get(self.codes.id(frame.code)?)?.info;
        Some((&info.file, info.qualname.rsplit('.').next()?))
    }
}
