//! The reader's state: the memory it reads, the layout there, and all tables of what is known.
//!
//! How it works: the folders above this file (drawn in `mod.rs`) add what they read as methods, and
//! call only those of folders below them.
//!
//! What it promises: `begin_pass` makes every table verify anew what it knows. What is missing on
//! purpose: attaching (`attach`).

use crate::python_stacks::codes::Codes;
use crate::python_stacks::frames::frame::RawFrame;
use crate::python_stacks::frames::walker::Walker;
use crate::python_stacks::layout::Layout;
use crate::python_stacks::objects::searched::Searched;
use crate::python_stacks::objects::Objects;
use crate::python_stacks::task_tables::running_tasks::RunningMemory;
use crate::python_stacks::task_tables::task_layout::TaskLayout;
use crate::python_stacks::threads::{Gil, Threads};
use crate::python_stacks::types::{
    CodeId, CodeInfo, Counters, PyThread, RuntimeInfo, Torn, TypeAddresses,
};
use sys::mem::Reader;

/// How often a moving stack is read again before the last reading is judged.
pub(crate) const TRIES: usize = 4;
pub(crate) const CODE_GONE: Torn = Torn("code object gone before it was read");

/// The reader. One per process and sampling thread; make a new one after a fork.
pub struct PythonStacks {
    pub(crate) mem: Reader,
    pub(crate) layout: Layout,
    pub(crate) types: TypeAddresses,
    pub(crate) tasks: TaskLayout,
    pub(crate) objects: Objects,
    pub(crate) running: RunningMemory,
    pub(crate) threads: Threads,
    pub(crate) codes: Codes,
    pub(crate) walker: Walker,
    pub(crate) previous_frames: Vec<RawFrame>,
    pub(crate) unverified: Vec<usize>,
    /// For each frame walked, the number of rows before it.
    pub(crate) shown_at: Vec<u32>,
    pub(crate) last_gil: Option<Gil>,
    pub(crate) searched: Searched,
    pub(crate) counters: Counters,
}

impl PythonStacks {
    pub(crate) fn with(
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

    pub(crate) fn code_of(&self, frame: &RawFrame) -> Option<&CodeInfo> {
        self.code(self.codes.id(frame.code)?)
    }

    /// File and plain name of a frame's function.
    pub(crate) fn function(&self, frame: &RawFrame) -> Option<(&str, &str)> {
        let info = &self.codes.get(self.codes.id(frame.code)?)?.info;
        Some((&info.file, info.qualname.rsplit('.').next()?))
    }
}
