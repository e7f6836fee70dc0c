//! One clock for every source: CLOCK_MONOTONIC in nanoseconds.
//!
//! The kernel stamps switch records with the same clock (`perf_event_attr.use_clockid`), Python's
//! `time.monotonic_ns` reads it too, so records from all sources can be compared without
//! conversion. Cost: where the kernel trusts the CPU's time stamp counter, one `rdtsc` and a
//! multiplication once `follow` has been called for a while (`line` has how); elsewhere one vDSO
//! call, 20-25 ns.

mod kernel;
mod line;

pub use kernel::kernel_ns;
use kernel::read_ns;
pub use line::{follow, state, Following};

/// Nanoseconds of CLOCK_MONOTONIC. Async-signal-safe.
#[inline]
pub fn now_ns() -> u64 {
    line::now_ns().unwrap_or_else(|| read_ns(libc::CLOCK_MONOTONIC))
}

/// Nanoseconds since the Unix epoch (CLOCK_REALTIME); only for names and for the epoch pair of a
/// capture, never for durations.
pub fn epoch_ns() -> u64 {
    read_ns(libc::CLOCK_REALTIME)
}

/// Nanoseconds since the host's start (CLOCK_BOOTTIME): the clock of a process's beginning in
/// /proc.
pub fn since_boot_ns() -> u64 {
    read_ns(libc::CLOCK_BOOTTIME)
}

/// Seconds that the local time is ahead of UTC at a time of the Unix epoch, by `TZ` and the
/// system's setting. For commands: the C library reads files, and takes a lock.
pub fn utc_offset_s(epoch_s: i64) -> i64 {
    // SAFETY: all zeroes is a valid tm, which the call fills in; both are ours. The call reads
    // `TZ`: a thread that changes the environment meanwhile would break it, so only commands, which
    // have no such thread, may call this.
    unsafe {
        let mut local: libc::tm = std::mem::zeroed();
        match libc::localtime_r(&epoch_s, &mut local).is_null() {
            true => 0,
            false => local.tm_gmtoff,
        }
    }
}

/// CPU time of the calling thread in nanoseconds. A syscall, about 0.3-0.5 us.
pub fn thread_cpu_ns() -> u64 {
    read_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of the whole process in nanoseconds.
pub fn process_cpu_ns() -> u64 {
    read_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

#[cfg(test)]
mod tests {
    #[test]
    fn monotonic_time_never_goes_back() {
        let mut last = super::now_ns();
        for _ in 0..10_000 {
            let now = super::now_ns();
            assert!(now >= last, "{now} < {last}");
            last = now;
        }
    }
}
