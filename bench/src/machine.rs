//! The machine under the measurement: its cores, its counter, its memory.

use std::time::{Duration, Instant};

/// The raw cycle counter, as the fastest recorder could use for timestamps.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn rdtsc() -> u64 {
    // SAFETY: every x86-64 has the instruction; it touches no memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The generic timer's counter, this architecture's cheapest clock.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub fn rdtsc() -> u64 {
    let count: u64;
    // SAFETY: Linux lets user space read this register.
    unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) count) };
    count
}

/// Nanoseconds of CLOCK_MONOTONIC by the C library.
#[inline]
pub fn clock_gettime() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is ours; the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Counts of `rdtsc` a nanosecond, over a tenth of a second.
pub fn counts_a_ns() -> f64 {
    let (begin, count) = (Instant::now(), rdtsc());
    std::thread::sleep(Duration::from_millis(100));
    (rdtsc() - count) as f64 / begin.elapsed().as_nanos() as f64
}

fn affinity() -> libc::cpu_set_t {
    // SAFETY: an all-zero set is valid, and the kernel fills it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set);
        set
    }
}

fn set_affinity(set: &libc::cpu_set_t) {
    // SAFETY: `set` is a valid set; only this thread is moved.
    unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set) };
}

/// Cores this process may use, as it was started.
pub fn cpus() -> &'static [usize] {
    static CPUS: std::sync::OnceLock<Vec<usize>> = std::sync::OnceLock::new();
    CPUS.get_or_init(|| {
        let set = affinity();
        // SAFETY: the number is below the size of the set.
        (0..libc::CPU_SETSIZE as usize).filter(|n| unsafe { libc::CPU_ISSET(*n, &set) }).collect()
    })
}

/// Pins the calling thread to one of `cpus()`, counted from the last: the first CPU has the
/// machine's interrupts more often.
pub fn pin(from_last: usize) {
    let cpus = cpus();
    // SAFETY: an all-zero set is valid; the number came from a set of this size.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpus[cpus.len() - 1 - from_last % cpus.len()], &mut set);
        set
    };
    set_affinity(&set);
}

/// Lets the calling thread, and threads it starts, run on all of `cpus()` again.
pub fn unpin() {
    // SAFETY: as in `pin`.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        cpus().iter().for_each(|cpu| libc::CPU_SET(*cpu, &mut set));
        set
    };
    set_affinity(&set);
}

/// CPU time of this process, all threads.
pub fn cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is ours; the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Bytes of memory this process has in use.
pub fn rss_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split(' ').nth(1).and_then(|w| w.parse().ok()).unwrap_or(0);
    // SAFETY: asks for a constant.
    pages * unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64
}
