//! Answers that are remembered, since many segments ask the same question.
//!
//! Plain data: the modules that find an answer fill it in (`facts::long_work`,
//! `facts::transactions`; in `ended_by` the modules `gil` and `ran_before`), and `Context` holds it
//! for as long as a capture is judged.

use std::collections::HashMap;

/// A thread's work without a break.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Burst {
    pub from_ns: u64,
    pub to_ns: u64,
    /// Time on a CPU in it.
    pub ran_ns: u64,
}

/// A thread's transaction in a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transaction {
    pub(crate) tid: u32,
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
}

/// Bursts that were searched for.
#[derive(Debug, Default)]
pub(crate) struct Bursts {
    /// The last one of each thread.
    pub(crate) last: HashMap<u32, Burst>,
    /// When requests, and parts of them, ended, by the thread that worked for them, in order.
    pub(crate) ends: Option<HashMap<u32, Vec<u64>>>,
}

/// What samples read from the interpreter: when, and the holder of the GIL; in order of time.
#[derive(Debug, Default)]
pub(crate) struct Readings(pub(crate) Vec<(u64, u32)>);

/// The whole of a wait for the GIL.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WholeGilWait {
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
    /// The thread that held it for most of the time that has a reading.
    pub(crate) holder: Option<u32>,
    /// For most of it, whoever held it was runnable without a CPU, at work that is not long.
    pub(crate) starved: bool,
}

/// The last whole wait that was searched for of each thread.
#[derive(Debug, Default)]
pub(crate) struct GilWaits(pub(crate) HashMap<u32, WholeGilWait>);

/// How waits with a time limit at one place ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LimitedWaits {
    /// One ended before its limit: somebody gave notice.
    pub(crate) noticed: bool,
    /// One ran to its limit.
    pub(crate) ran_out: bool,
    /// After one that ran to its limit its thread asked again.
    pub(crate) in_slices: bool,
    /// The longest after which one asked again: then its code does not give up any sooner.
    pub(crate) longest_asked: Asked,
}

/// How far a thread that asks in slices had come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    /// Since it first asked.
    pub(crate) ns: u64,
    /// How many time limits that samples saw have run out.
    pub(crate) limits: usize,
}

/// Thread, end of its wait, lock, and stack.
pub(crate) type WaitKey = (u32, WaitEnd, u64, u32);

/// When a wait ended, as far as that separates it from others of the same thread for the same lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WaitEnd {
    At(u64),
    /// One of many short ones, by the slice of time that it ended in.
    In(u64),
}
