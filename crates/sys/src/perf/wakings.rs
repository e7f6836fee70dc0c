//! Wakeups of a few threads: the kernel's tracepoint `sched_waking`.
//!
//! How it works: an event of the tracepoint on each CPU sees every wakeup there. A filter that the
//! kernel evaluates lets only those of the followed threads through. What passes is written into
//! the ring that holds the switches of that CPU, so the order is kept:
//!
//! ```text
//!   cpu 0:   thread W calls futex(WAKE)          ring 0:  ... | A out | W wakes A |
//!   cpu 1:   A gets a CPU and goes on            ring 1:  ...             | A in |
//! ```
//!
//! The sample's own pid and tid are the waker's; the woken thread is in the tracepoint's bytes, at
//! the offset from its `format` file. (An event attached to the woken thread would count there, but
//! write nothing: a sample belongs to the running thread.) In an interrupt the running thread is
//! not the waker; the tracepoint's flags show that.
//!
//! | reads | emits | unit | from |
//! | --- | --- | --- | --- |
//! | tracepoint `sched:sched_waking`, PERF_SAMPLE_RAW | `SwitchKind::Woken` | ns | 4.3 |
//! | `/sys/kernel/tracing` (or `debug/tracing`): `id`, `format` | offsets | bytes | 2.6.31 |
//!
//! What it promises: each wakeup of a followed thread, before the `In` it leads to; a full ring
//! loses and counts it as it does switches. Before the first thread is followed nothing is open and
//! nothing costs; when none is any more, the kernel's hook stays in until `Wakings` is dropped (see
//! there). Cost while one is: every wakeup on the machine, also of other processes, costs more,
//! since the filter must be evaluated (figures: `examples/costs.rs`).
//!
//! What it does not promise: one wakeup may be recorded twice while the list changes, since both
//! events are open then. CPUs that come online are covered from the next change on. Needs
//! CAP_PERFMON (or `kernel.perf_event_paranoid` -1), tracefs, and the kernel's own process ids.
//!
//! The wakers' stacks are in rings of their own: `waker_stacks`.

use super::attr;
use super::limits::online_cpus;
use super::refused::{Refused, OTHER_IDS, READING, TRACEPOINT};
use crate::ours::Fd;
use std::io;

/// The largest number of followed threads: the kernel evaluates their list at each wakeup on the
/// machine.
pub const MOST_FOLLOWED: usize = 16;

const FOLDERS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Bytes of a sample in front of the tracepoint's own: header, pid and tid, time, their number.
const FRONT: u64 = 28;
/// The inode of the kernel's first pid namespace, `PROC_PID_INIT_INO`.
const FIRST_PIDS: &str = "pid:[4026531836]";

/// The offsets of fields in a wakeup's record, in bytes from its begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) wakee_at: u64,
    pub(super) flags_at: u64,
}

impl Layout {
    /// `TRACE_FLAG_HARDIRQ`, `_SOFTIRQ` and `_NMI` of the kernel.
    pub(super) const INTERRUPTS: u8 = 0x08 | 0x10 | 0x40;

    /// From the tracepoint's `format` file; None where that does not have it.
    pub(super) fn of(format: &str) -> Option<Layout> {
        let at = |name: &str| -> Option<u64> {
            let mut lines = format.lines().filter_map(|line| line.trim().strip_prefix("field:"));
            let line = lines.find(|line| {
                let field = line.split(';').next().unwrap_or("");
                field.split_whitespace().last() == Some(name)
            })?;
            let offset = line.split(';').find_map(|part| part.trim().strip_prefix("offset:"))?;
            offset.parse().ok().filter(|at| *at < 1024).map(|at: u64| FRONT + at)
        };
        let (wakee_at, flags_at) = (at("pid")?, at("common_flags")?);
        // Inside of one word of the ring.
        (wakee_at % 4 == 0).then_some(Layout { wakee_at, flags_at })
    }

    /// Bytes a record has at least.
    pub(super) fn end(&self) -> u64 {
        (self.wakee_at + 4).max(self.flags_at + 1)
    }
}

/// The tracepoint, as this kernel has it.
pub struct Wakings {
    id: u64,
    layout: Layout,
    /// A disabled event, from the first followed thread on. The kernel takes 20 to 50 ms to remove
    /// its hook after the last event, and 0.5 to put it in; meanwhile the hook finds nothing to do.
    anchor: Option<Fd>,
}

impl Wakings {
    /// Finds the tracepoint, and whether this process may use it, as far as that is known without
    /// an attempt. Errors: `Refused` says what is missing and what would help. Nothing stays open.
    pub fn find() -> Result<Wakings, Refused> {
        let refused = |what, errno| Refused::new(what, &io::Error::from_raw_os_error(errno));
        let pids = std::fs::read_link("/proc/self/ns/pid");
        if !pids.is_ok_and(|pids| pids.as_os_str() == FIRST_PIDS) {
            return Err(refused(OTHER_IDS, libc::EOPNOTSUPP));
        }
        let wakings = read().map_err(|e| Refused::new(READING, &e))?;
        let forbidden = refused(TRACEPOINT, libc::EACCES);
        if forbidden.paranoid.is_none_or(|level| level > -1) && !is_capable() {
            return Err(forbidden);
        }
        Ok(wakings)
    }

    /// The same tracepoint, with the kernel's hook not put in by this one.
    pub fn unused(&self) -> Wakings {
        Wakings { anchor: None, ..*self }
    }

    /// The tracepoint's id.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn layout(&self) -> Layout {
        self.layout
    }

    /// Attempts it. Blocks the caller for up to 50 ms: for a command, not for a service.
    pub fn attempt(mut self) -> Result<(), Refused> {
        self.settle()
    }

    /// Puts the kernel's hook in.
    pub(super) fn settle(&mut self) -> Result<(), Refused> {
        if self.anchor.is_none() {
            let cpu = online_cpus().first().copied().unwrap_or(0);
            let anchor = attr::open_tracepoint(self.id, cpu);
            self.anchor = Some(anchor.map_err(|e| Refused::new(TRACEPOINT, &e))?);
        }
        Ok(())
    }
}

/// Whether this thread has CAP_PERFMON or CAP_SYS_ADMIN.
fn is_capable() -> bool {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    bits & (1 << 38 | 1 << 21) != 0
}

fn read() -> io::Result<Wakings> {
    let file = |folder: &str, name: &str| {
        std::fs::read_to_string(format!("{folder}/events/sched/sched_waking/{name}"))
    };
    let mut refused = None;
    for folder in FOLDERS {
        match (file(folder, "id"), file(folder, "format")) {
            (Ok(id), Ok(format)) => {
                let no_sense = || io::Error::from_raw_os_error(libc::EINVAL);
                let id = id.trim().parse().map_err(|_| no_sense())?;
                let layout = Layout::of(&format).ok_or_else(no_sense)?;
                return Ok(Wakings { id, layout, anchor: None });
            }
            // "Forbidden" says more than "missing".
            (Err(e), _) | (_, Err(e)) if refused.is_none() => refused = Some(e),
            (Err(e), _) | (_, Err(e)) if e.kind() == io::ErrorKind::PermissionDenied => {
                refused = Some(e);
            }
            _ => (),
        }
    }
    Err(refused.unwrap_or_else(|| io::Error::from_raw_os_error(libc::ENOENT)))
}
