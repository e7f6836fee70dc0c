//! What rules and inferences read: a capture's index, the limit, what was found out so far, and the
//! trace of an explanation.
//!
//! What it promises: the same question has the same answer, however often and in whatever order it
//! is asked. Missing on purpose: the questions. Each is a function of the module that answers it.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Deref;

use analysis::frames::Function;
use analysis::index::Index;
use capture::read::Capture;
use format::usage::Usage;

use crate::explain::trace::Trace;
use crate::memo::{Bursts, GilWaits, LimitedWaits, Readings, Transaction, WaitKey};
use crate::order::Order;

/// A capture and the questions rules ask of it.
pub(crate) struct Context<'c> {
    /// What records and samples say by themselves.
    pub(crate) index: Index<'c>,
    /// The limit of the slow requests, ns: work that takes as long by itself is too slow on a free
    /// machine as well. `u64::MAX` where nothing is judged.
    pub(crate) limit_ns: u64,
    /// The last burst of work that was searched for of each thread.
    pub(crate) bursts: RefCell<Bursts>,
    /// Time on a CPU of requests that were asked about, by thread and begin.
    pub(crate) request_work: RefCell<HashMap<(u32, u64), u64>>,
    /// When each thread took up the request that it was at when the capture ended.
    pub(crate) open_requests: OnceCell<HashMap<u32, u64>>,
    /// What samples read of the holder of the GIL; built at the first question.
    pub(crate) gil_readings: OnceCell<Readings>,
    /// The last whole wait for the GIL that was searched for of each thread.
    pub(crate) gil_waits: RefCell<GilWaits>,
    /// Whether the code of a stack gets an item of a pool; of stacks that were asked about.
    pub(crate) pools: RefCell<HashMap<u32, bool>>,
    /// Stacks of code in which the process grew.
    pub(crate) grown: OnceCell<HashSet<u32>>,
    /// What threads used in each function, and in what time; built at the first question.
    pub(crate) used_in: OnceCell<HashMap<Function, (Usage, u64)>>,
    /// How waits with a time limit ended at the place of a stack; of stacks that were asked about.
    pub(crate) limited_waits: RefCell<HashMap<u32, LimitedWaits>>,
    /// Threads of native libraries, by the library's file; built at the first question.
    pub(crate) library_threads: OnceCell<BTreeMap<String, BTreeSet<u32>>>,
    /// Transactions of databases; built at the first question.
    pub(crate) transactions: OnceCell<Vec<Transaction>>,
    /// Inferred wakers of waits.
    pub(crate) releasers: RefCell<HashMap<WaitKey, Option<u32>>>,
    /// In which order rules and inferences are asked.
    pub(crate) order: Order,
    /// Where inferences put what they compared.
    pub(crate) trace: Trace,
}

impl<'c> Deref for Context<'c> {
    type Target = Index<'c>;

    fn deref(&self) -> &Index<'c> {
        &self.index
    }
}

impl<'c> Context<'c> {
    /// Sets a capture up, to judge requests by a limit.
    pub(crate) fn judged(capture: &'c Capture, limit_ns: u64) -> Context<'c> {
        Context { limit_ns, ..Context::new(capture) }
    }

    /// Sets a capture up.
    pub(crate) fn new(capture: &'c Capture) -> Context<'c> {
        Context {
            index: Index::new(capture),
            limit_ns: u64::MAX,
            bursts: RefCell::default(),
            request_work: RefCell::default(),
            open_requests: OnceCell::new(),
            gil_readings: OnceCell::new(),
            gil_waits: RefCell::default(),
            pools: RefCell::default(),
            grown: OnceCell::new(),
            used_in: OnceCell::new(),
            limited_waits: RefCell::default(),
            library_threads: OnceCell::new(),
            transactions: OnceCell::new(),
            releasers: RefCell::default(),
            order: Order::default(),
            trace: Trace::default(),
        }
    }
}
