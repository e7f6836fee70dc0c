//! perf_event_open and its attributes: just the ones that switch records and watches need.
//!
//! How it works: `Attr` is the kernel's `struct perf_event_attr` up to `clockid` (its 96-byte third
//! version, which every kernel from 4.1 on takes). The dummy event counts nothing; only its side
//! records matter. A watch counts a thread's time on a CPU, and takes a sample of registers and
//! stack each period of it. These are chosen so that perf_event_paranoid 2 allows them: own
//! process, `exclude_kernel`, no call stacks by the kernel. Wakeups are the exception: a tracepoint
//! of a whole CPU, for which the kernel wants privileges.

use crate::kept;
use crate::ours::Fd;
use std::ffi::CStr;
use std::io;
use std::os::fd::AsRawFd;

const TYPE_SOFTWARE: u32 = 1;
const TYPE_TRACEPOINT: u32 = 2;
const COUNT_SW_TASK_CLOCK: u64 = 1;
const COUNT_SW_DUMMY: u64 = 9;
const SAMPLE_TID: u64 = 1 << 1;
const SAMPLE_TIME: u64 = 1 << 2;
const FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;
const SAMPLE_RAW: u64 = 1 << 10;
const SAMPLE_REGS_USER: u64 = 1 << 12;
const SAMPLE_STACK_USER: u64 = 1 << 13;
/// _IO('$', 0), _IO('$', 1); the same on x86-64 and aarch64, as the one below.
const IOC_ENABLE: libc::c_ulong = 0x2400;
const IOC_DISABLE: libc::c_ulong = 0x2401;
/// _IO('$', 5).
const IOC_SET_OUTPUT: libc::c_ulong = 0x2405;
/// _IOW('$', 6, char *).
const IOC_SET_FILTER: libc::c_ulong = 0x4008_2406;

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

/// What a watch is opened with.
#[derive(Clone, Copy, Debug)]
pub(super) struct WatchOf {
    pub tid: u32,
    /// Time on a CPU between two samples.
    pub period_ns: u64,
    /// Registers, by the kernel's numbers for this architecture, as bits.
    pub registers: u64,
    /// Bytes of the stack; a multiple of 8.
    pub stack_bytes: u32,
}

/// An event that samples one thread while it runs code of its own, on whatever CPU; disabled.
pub(super) fn open_watch(of: &WatchOf) -> io::Result<Fd> {
    submit_software(
        Attr {
            config: COUNT_SW_TASK_CLOCK,
            sample_period: of.period_ns,
            sample_type: SAMPLE_TID | SAMPLE_TIME | SAMPLE_REGS_USER | SAMPLE_STACK_USER,
            sample_regs_user: of.registers,
            sample_stack_user: of.stack_bytes,
            flags: flag::DISABLED,
            ..Attr::default()
        },
        of.tid,
        -1,
    )
}

/// The event of the tracepoint with this id, for all that happens on one CPU: disabled, so that a
/// filter can be set first.
pub(super) fn open_tracepoint(id: u64, cpu: u16) -> io::Result<Fd> {
    let attr = Attr {
        kind: TYPE_TRACEPOINT,
        config: id,
        sample_period: 1,
        sample_type: SAMPLE_TID | SAMPLE_TIME | SAMPLE_RAW,
        flags: flag::DISABLED,
        ..Attr::default()
    };
    submit(attr, -1, i32::from(cpu))
}

/// The same, with registers and the top of the stack of the running thread.
pub(super) fn open_waker_stacks(
    id: u64,
    cpu: u16,
    registers: u64,
    stack_bytes: usize,
) -> io::Result<Fd> {
    let attr = Attr {
        kind: TYPE_TRACEPOINT,
        config: id,
        sample_period: 1,
        sample_type: SAMPLE_TID | SAMPLE_TIME | SAMPLE_RAW | SAMPLE_REGS_USER | SAMPLE_STACK_USER,
        sample_regs_user: registers,
        sample_stack_user: stack_bytes as u32,
        flags: flag::DISABLED,
        ..Attr::default()
    };
    submit(attr, -1, i32::from(cpu))
}

/// Makes a tracepoint's event write only what passes `filter`. The kernel takes one filter an
/// event, once (EEXIST).
pub(super) fn filter(event: &Fd, filter: &CStr) -> io::Result<()> {
    // SAFETY: the descriptor is an open perf event of ours; the kernel reads the text up to its
    // end, and it lives through the call.
    match unsafe { libc::ioctl(event.as_raw_fd(), IOC_SET_FILTER as _, filter.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lets an event count, or not.
pub(super) fn enable(event: &Fd, on: bool) -> io::Result<()> {
    let request = if on { IOC_ENABLE } else { IOC_DISABLE };
    // SAFETY: the descriptor is an open perf event of ours; the call has no memory arguments.
    match unsafe { libc::ioctl(event.as_raw_fd(), request as _, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
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
    let sample_type = SAMPLE_TID | SAMPLE_TIME;
    let flags = flags | flag::SAMPLE_ID_ALL;
    let attr = Attr { config: COUNT_SW_DUMMY, sample_type, flags, ..Attr::default() };
    submit_software(attr, tid, i32::from(cpu))
}

/// Opens the software event described by `attr`, for what a thread does in its own code.
fn submit_software(attr: Attr, tid: u32, cpu: i32) -> io::Result<Fd> {
    let flags = attr.flags | flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV;
    submit(Attr { kind: TYPE_SOFTWARE, flags, ..attr }, i64::from(tid), cpu)
}

/// Opens the event described by `attr`. `tid` -1: all threads; `cpu` -1: on whichever the thread
/// runs.
fn submit(attr: Attr, tid: i64, cpu: i32) -> io::Result<Fd> {
    let attr = Attr {
        size: size_of::<Attr>() as u32,
        flags: attr.flags | flag::USE_CLOCKID,
        clockid: libc::CLOCK_MONOTONIC,
        ..attr
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
    kept::owned(fd as libc::c_int)
}
