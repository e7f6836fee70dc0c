//! What the sampler needs of the world: the time, the kernel's view of the threads, and a place for
//! what it found.
//!
//! How it works: three traits, which the sampler takes as one type parameter, so that a sample is
//! made without a call through a pointer. `Kernel` is the real one. A simulated one (the crate's
//! tests) gives times, threads and switch records from a seed.
//!
//! What it promises: policy reads no clock and no file but through these. Missing on purpose: the
//! memory of interpreters and native stacks are read by crate `samplers`, which has tests of its
//! own; a simulated world has neither.

use format::source::SourceState;
use std::io;

use recorder::{OpenRequest, Recorder};
use sys::calls::Wait;
use sys::mem::Reader;
use sys::perf::{Refused, Switch, Wakings};
use sys::task::{Schedstat, TaskCall, Usage};
use sys::vitals::Missing;

use crate::figures::Figures;

/// The clocks that the sampler reads.
pub trait Clock {
    /// CLOCK_MONOTONIC, ns.
    fn now_ns(&self) -> u64;
    /// CPU time of the sampler's thread, ns.
    fn thread_cpu_ns(&self) -> u64;
    /// CPU time of the process, ns.
    fn process_cpu_ns(&self) -> u64;
    /// Offers the CPU to the threads that wait for it.
    fn yield_cpu(&self);
}

/// Files of one thread under /proc, kept open.
pub trait ThreadFiles {
    /// On-CPU time and run delay. Errors: ESRCH once the thread has ended.
    fn schedstat(&mut self) -> io::Result<Schedstat>;
    /// What it is blocked in. Errors: ESRCH once the thread has ended.
    fn call(&mut self) -> io::Result<TaskCall>;
    /// What it has used. Errors: ESRCH once the thread has ended.
    fn usage(&mut self) -> io::Result<Usage>;
    /// Descriptors held.
    fn descriptors(&self) -> usize;
}

/// A stream of switch records, as `sys::perf::SwitchStream`.
pub trait SwitchRecords {
    /// Delivers the switches that happened since the last drain, by time.
    fn drain(&mut self, each: impl FnMut(Switch));
    /// When the last drain had given all space back.
    fn released_ns(&self) -> u64;
    /// How full the fullest ring was at the last drain: 0 to 1.
    fn filled(&self) -> f64;
    /// Records lost since the stream was opened.
    fn lost(&self) -> u64;
    /// CPUs covered.
    fn cpus(&self) -> usize;
    /// Descriptors held.
    fn descriptors(&self) -> usize;
    /// Adds the CPUs that came online since.
    fn cover_new_cpus(&mut self, skip: &[u32]) -> Result<usize, Refused>;
    /// Reports from now on the wakers of these threads, and of no others.
    fn follow(&mut self, wakings: &mut Wakings, tids: &[u32]) -> Result<(), Refused>;
}

/// Counters of process and host, as `sys::vitals::Vitals`.
pub trait VitalSigns {
    /// Calls `each` with every counter's name and value.
    fn read(&mut self, each: impl FnMut(&'static str, f64));
    /// What this host does not give.
    fn missing(&self) -> &[Missing];
    /// Closes what can be opened for each read.
    fn give_back(&mut self);
    /// Descriptors that the process has open.
    fn open_descriptors(&self) -> Option<u64>;
}

/// What is read of the process: /proc, perf events, and the memory of its threads.
pub trait Proc {
    /// Of one thread.
    type Files: ThreadFiles;
    /// Of all threads.
    type Switches: SwitchRecords;
    /// Of process and host.
    type Vitals: VitalSigns;

    /// Kernel ids of all threads, ascending, in place of what was in `tids`.
    fn list(&self, tids: &mut Vec<u32>) -> io::Result<()>;
    /// CPU time of a thread, exact to this moment. None: it has ended.
    fn cpu_ns(&self, tid: u32) -> Option<u64>;
    /// Opens a thread's files.
    fn open(&self, tid: u32) -> io::Result<Self::Files>;
    /// The id that the kernel gave out last on this host.
    fn last_id(&self) -> Option<u32>;
    /// Opens the stream of switch records, of all threads but `skip`.
    fn open_switches(&self, skip: &[u32]) -> Result<Self::Switches, Refused>;
    /// Finds the kernel's hook for wakeups.
    fn find_wakings(&self) -> Result<Wakings, Refused>;
    /// Opens the counters of process and host.
    fn open_vitals(&self) -> Self::Vitals;

    /// The memory of the process, by guarded reads.
    fn memory(&self) -> &Reader;
    /// What a call waits for.
    fn wait(&self, call: &TaskCall) -> Wait;
    /// The thread whose id the C library's lock at `futex` holds.
    fn lock_owner(&self, call: &TaskCall, futex: u64) -> Option<u32>;

    /// Whether there is room for this many descriptors of ours.
    fn has_room(&self, descriptors: usize) -> bool;
    /// Notes how many descriptors the process has open. Where the kernel does not say, `count` is
    /// asked.
    fn note_descriptors(&self, count: impl FnOnce() -> Option<u64>);
    /// Whether the process comes near its limit of descriptors.
    fn is_tight(&self) -> bool;
}

/// Where records and the sampler's own state go, and what is asked of the recorder behind it.
pub trait Sink {
    /// Appends a record of the sampler's thread, stamped `now_ns` or earlier.
    fn append(&self, record: &[u64], now_ns: u64);
    /// The recorder, for its tables, loss counters, limits and open requests.
    fn recorder(&self) -> &'static Recorder;
    /// Says how a source is.
    fn set_source(&self, name: &str, state: SourceState);
    /// States have changed that a recovered capture needs.
    fn store_sources(&self);
    /// Takes what is slow to drop.
    fn retire(&self, wakings: Option<Wakings>);
    /// What the sampler counts of itself.
    fn figures(&self) -> &Figures;

    /// Calls `each` with every open request.
    fn open_requests(&self, each: impl FnMut(OpenRequest)) {
        self.recorder().open_requests().each(each);
    }

    /// Requests that have begun so far.
    fn requests_begun(&self) -> u64 {
        self.recorder().open_requests().begun()
    }

    /// How long requests of that name take as a rule, and how long they may; ns.
    fn times_of(&self, name: ring::Name) -> (u64, u64) {
        let limits = self.recorder().limits();
        (limits.typical_ns(name), limits.limit_ns(name))
    }

    /// Counts a loss.
    fn lose(&self, loss: usize, count: u64) {
        self.recorder().region().lose(loss, count);
    }
}

/// All three.
pub trait World: Clock + Proc + Sink {}

impl<T: Clock + Proc + Sink> World for T {}
