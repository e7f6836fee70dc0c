//! What really happened: for each thread and each task what it did, without holes.
//!
//! How it works: whenever what a thread does or where it is changes, the time up to now is added to
//! its log. The truth of a request is read from these (`judge::truth`); no capture holds them.
//!
//! What it promises: the entries of a thread follow each other from its birth to its end.

use super::actor::{Body, On, Tid, Why};
use crate::record::tables::Tables;

/// What a thread or task did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Doing {
    /// It had a CPU.
    Run(Why),
    /// It was ready, and others had the CPUs.
    Ready,
    /// It was ready, and the container's quota was used up.
    Throttled,
    /// The process was stopped.
    Stopped,
    /// It was blocked.
    Wait(On),
    /// A task was ready, and its loop at something else.
    Queued,
    /// It had ended.
    Gone,
}

/// A time in which a thread did one thing.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Begin.
    pub from: u64,
    /// End.
    pub to: u64,
    /// What it did.
    pub doing: Doing,
    /// Where, as a stack of the truth's tables.
    pub stack: u32,
    /// The waker, of a wait.
    pub ended_by: Option<Tid>,
    /// The task that the thread had mounted.
    pub task: Option<usize>,
}

/// The logs of all threads and tasks.
#[derive(Debug, Default)]
pub struct Logs {
    /// By thread.
    pub threads: Vec<Vec<Entry>>,
    /// By task; time in which it was mounted is its thread's.
    pub tasks: Vec<Vec<Entry>>,
}

/// The stack of a body.
pub fn stack_of(tables: &mut Tables, program: &crate::program::Program, body: &Body<'_>) -> u32 {
    let mut stack = 0;
    for frame in body.base {
        stack = tables.library(stack, frame);
    }
    for frame in &body.frames {
        stack = tables.function(stack, program, frame.function, frame.line);
    }
    for frame in body.extra {
        stack = tables.library(stack, frame);
    }
    if let Some(module) = body.module {
        let line = program.functions[module].first_line + 1;
        stack = tables.function(stack, program, module, line);
    }
    stack
}
