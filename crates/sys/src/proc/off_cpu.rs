//! Proof that a thread did not run while something of it was read: nothing is stopped for it.
//!
//! How it works: memory that a running thread changes cannot be copied whole by reading it, however
//! often it is read and in whatever order: a thread that does the same again and again can have any
//! word of it at any reading, so that words which never were there together agree each time. What a
//! thread cannot hide is that it lost a CPU, which the kernel counts:
//!
//! ```text
//!   switches | read ... | off the CPU? | switches: the same number?
//! ```
//!
//! If it had run since the first count, it would have lost its CPU to be off at the end; the kernel
//! counts that before anything else runs there, so the second count would be higher. A thread is
//! off the CPU if the kernel shows the call it is blocked in (it waits until the thread has left
//! its CPU for that), or if its CPU is the one on which we run. So for a thread that runs, the
//! reader moves itself to that thread's CPU; the scheduler gives it a turn as to any other.
//!
//! What it promises: `Proof::Held` only if the thread ran no instruction during the read: all of
//! the read is then of one instant. `Proof::Ran` may be wrong. When this is dropped, the calling
//! thread may run where it could before. Cost: 30 us, and two moves for a thread that runs.
//!
//! What is missing on purpose: threads of real-time classes are not followed onto their CPU, where
//! the reader might never get a turn; kernels that show no switches (`Proof::NotShown`).

use std::io;
use std::path::Path;

use crate::task::{Switches, TaskCall, TaskReader};

/// Whether the thread ran during a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// It did not.
    Held,
    /// It did, or may have.
    Ran,
    /// The kernel does not show it, or the thread has ended.
    NotShown,
}

/// What shows whether the thread runs.
trait Shown {
    /// How often it lost its CPU; it never decreases. None: not shown.
    fn switches(&mut self) -> Option<Switches>;
    /// True only if at some instant of this call it was off the CPU.
    fn is_off_cpu(&mut self) -> bool;
}

fn proven<T>(shown: &mut impl Shown, read: impl FnOnce() -> T) -> (T, Proof) {
    let before = shown.switches();
    let result = read();
    let is_off = shown.is_off_cpu();
    let after = shown.switches();
    let proof = match (before, after) {
        (Some(before), Some(after)) if is_off && before == after => Proof::Held,
        (Some(_), Some(_)) => Proof::Ran,
        _ => Proof::NotShown,
    };
    (result, proof)
}

/// Watches one thread.
pub struct OffCpu {
    task: TaskReader,
    ours: Option<OnOneCpu>,
}

impl OffCpu {
    /// Watches thread `tid` of the process whose folder in /proc this is. Errors: it has ended.
    pub fn open_in(process: &Path, tid: u32) -> io::Result<OffCpu> {
        Ok(OffCpu { task: TaskReader::open_in(process, tid)?, ours: None })
    }

    /// Reads, and says whether the thread ran meanwhile. A thread that runs is followed onto its
    /// CPU, so that the calling thread waits until it has its turn there.
    pub fn during<T>(&mut self, read: impl FnOnce() -> T) -> (T, Proof) {
        if !self.is_blocked() {
            self.follow();
        }
        proven(self, read)
    }

    fn is_blocked(&mut self) -> bool {
        self.task.call().is_ok_and(|call| call != TaskCall::Running)
    }

    /// Moves the calling thread to the CPU of the watched one, if that may be.
    fn follow(&mut self) {
        let Ok(place) = self.task.place() else { return };
        if place.real_time || self.ours.as_ref().is_some_and(|ours| ours.cpu == place.cpu) {
            return;
        }
        self.ours = None;
        self.ours = OnOneCpu::of(place.cpu);
    }
}

impl Shown for OffCpu {
    fn switches(&mut self) -> Option<Switches> {
        self.task.status_switches().ok()
    }

    fn is_off_cpu(&mut self) -> bool {
        let shares = self.ours.as_ref().is_some_and(|ours| {
            let at_ours = self.task.place().is_ok_and(|place| place.cpu == ours.cpu);
            // Behind the read: the kernel moves a thread away only by giving it another mask.
            at_ours && ours.is_held()
        });
        shares || self.is_blocked()
    }
}

/// Bits of CPUs, in the kernel's order; the kernel refuses a mask that is shorter than its own.
type Mask = [u64; 128];

/// The calling thread may run on one CPU only, until this is dropped.
struct OnOneCpu {
    cpu: usize,
    only: Mask,
    before: Mask,
    /// It belongs to the thread that made it.
    _thread: std::marker::PhantomData<*const ()>,
}

impl OnOneCpu {
    /// None: the CPU is not one that this thread may use.
    fn of(cpu: usize) -> Option<OnOneCpu> {
        let before = mask()?;
        let mut only = [0; 128];
        *only.get_mut(cpu / 64)? = 1 << (cpu % 64);
        let ours = OnOneCpu { cpu, only, before, _thread: std::marker::PhantomData };
        // Dropped where it is refused: the mask is then set to what it is.
        set_mask(&ours.only).then_some(ours)
    }

    fn is_held(&self) -> bool {
        mask() == Some(self.only)
    }
}

impl Drop for OnOneCpu {
    fn drop(&mut self) {
        set_mask(&self.before);
    }
}

/// How many CPUs the calling thread may use.
pub(crate) fn cpus_allowed() -> Option<u32> {
    mask().map(|mask| mask.iter().map(|word| word.count_ones()).sum())
}

/// The CPUs that the calling thread may use.
fn mask() -> Option<Mask> {
    let mut mask: Mask = [0; 128];
    // SAFETY: the kernel writes at most the given number of bytes, which are `mask`'s own, and any
    // bits are a valid u64. Another length than its size would break it.
    let got = unsafe { libc::sched_getaffinity(0, size_of::<Mask>(), mask.as_mut_ptr().cast()) };
    (got == 0).then_some(mask)
}

fn set_mask(mask: &Mask) -> bool {
    // SAFETY: the kernel reads the given number of bytes, which are `mask`'s own, and keeps no
    // pointer. Another length than its size would break it.
    unsafe { libc::sched_setaffinity(0, size_of::<Mask>(), mask.as_ptr().cast()) == 0 }
}

#[cfg(test)]
#[path = "off_cpu_tests.rs"]
mod tests;
