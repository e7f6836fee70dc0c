//! The kernel's clocks, read by the vDSO or a system call.

/// Nanoseconds of CLOCK_MONOTONIC, from the kernel.
#[inline]
pub fn kernel_ns() -> u64 {
    read_ns(libc::CLOCK_MONOTONIC)
}

#[inline]
pub(super) fn read_ns(clock: libc::clockid_t) -> u64 {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `ts` is a valid timespec we own; the ids used in this folder exist on every Linux we
    // support, so the call cannot fail, and if it did `ts` would stay zero.
    unsafe { libc::clock_gettime(clock, &mut ts) };
    ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64
}
