//! perf_event_open and its attributes: just the ones that switch records need.
//!
//! How it works: `Attr` is the kernel's `struct perf_event_attr` up to `clockid` (its 96-byte
//! third version, which every kernel from 4.1 on takes). The dummy event counts nothing; all that
//! matters are the side records. Everything is chosen so that perf_event_paranoid 2 allows it:
//! own process, `exclude_kernel`, no call stacks.
//!
//! Descriptors are moved to numbers from 1024 on where the limit allows, so that the low ones stay
//! free for hosts that use `select()`, which breaks on a descriptor above 1023.

use crate::kept;
use crate::ours::Fd;
use std::io;
use std::os::fd::AsRawFd;

const TYPE_SOFTWARE: u32 = 1;
const COUNT_SW_DUMMY: u64 = 9;
const SAMPLE_TID: u64 = 1 << 1;
const SAMPLE_TIME: u64 = 1 << 2;
const FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;
/// _IO('$', 5); the same on x86-64 and aarch64.
const IOC_SET_OUTPUT: libc::c_ulong = 0x2405;

/// Bits of the flag word, in the kernel's order.
mod flag {
    pub const DISABLED: u64 = 1 << 0;
    pub const INHERIT: u64 = 1 << 1;
    pub const EXCLUDE_KERNEL: u64 = 1 << 5;
    pub const EXCLUDE_HV: u64 = 1 << 6;
    pub const SAMPLE_ID_ALL: u64 = 1 << 18;
    pub const USE_CLOCKID: u64 = 1 << 25;
    pub const CONTEXT_SWITCH: u64 = 1 << 26;
    pub const INHERIT_THREAD: u64 = 1 << 35;
}

/// First descriptor number we use where we can, and the limit from which on we can.
const HIGH_FD: (libc::c_int, u64) = (1024, 4096);

#[repr(C)]
#[derive(Default)]
struct Attr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    bp_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clockid: i32,
}

const _: () = assert!(size_of::<Attr>() == 96);

/// The event that owns the ring of `cpu`: never enabled, so it writes nothing itself.
pub(super) fn open_holder(cpu: u16) -> io::Result<Fd> {
    open(0, cpu, flag::DISABLED)
}

/// The event of one thread on one CPU, enabled, and inherited by the threads it starts. Where the
/// kernel does not know `inherit_thread`, `threads_only` is cleared and the event is inherited by
/// forked children too.
pub(super) fn open_thread(tid: u32, cpu: u16, threads_only: &mut bool) -> io::Result<Fd> {
    let flags = flag::INHERIT | flag::CONTEXT_SWITCH;
    if *threads_only {
        let event = open(tid, cpu, flags | flag::INHERIT_THREAD);
        match &event {
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => *threads_only = false,
            _ => return event,
        }
    }
    open(tid, cpu, flags)
}

/// Sends the records of `event` into the ring of `holder`. Both must be of the same CPU.
pub(super) fn redirect(event: &Fd, holder: &Fd) -> io::Result<()> {
    // SAFETY: both descriptors are open perf events of ours; the call has no memory arguments.
    let done = unsafe { libc::ioctl(event.as_raw_fd(), IOC_SET_OUTPUT as _, holder.as_raw_fd()) };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn open(tid: u32, cpu: u16, flags: u64) -> io::Result<Fd> {
    let common = flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV | flag::SAMPLE_ID_ALL | flag::USE_CLOCKID;
    let attr = Attr {
        kind: TYPE_SOFTWARE,
        size: size_of::<Attr>() as u32,
        config: COUNT_SW_DUMMY,
        sample_type: SAMPLE_TID | SAMPLE_TIME,
        flags: flags | common,
        clockid: libc::CLOCK_MONOTONIC,
        ..Attr::default()
    };
    let (tid, cpu) = (tid as libc::c_long, libc::c_long::from(cpu));
    let no_group: libc::c_long = -1;
    // SAFETY: `attr` lives through the call and `size` says how long it is; the kernel only reads.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attr,
            tid,
            cpu,
            no_group,
            FLAG_FD_CLOEXEC,
        )
    };
    kept::owned(fd as libc::c_int).map(out_of_the_way)
}

fn out_of_the_way(fd: Fd) -> Fd {
    if descriptor_limit() < HIGH_FD.1 {
        return fd;
    }
    // SAFETY: duplicates a descriptor we own; no memory is involved.
    let high = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, HIGH_FD.0) };
    kept::owned(high).unwrap_or(fd)
}

/// The soft limit of open descriptors of this process.
pub(super) fn descriptor_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is ours and of the type the call fills.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    limit.rlim_cur
}
