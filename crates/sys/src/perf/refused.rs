//! Why perf events cannot be recorded here, and what to change.

use std::fmt;
use std::io;

/// What was attempted when wakeups are followed.
pub(super) const READING: &str = "reading the tracepoint sched_waking";
pub(super) const OTHER_IDS: &str = "knowing threads by the kernel's ids";
pub(super) const TRACEPOINT: &str = "perf_event_open of sched_waking";

/// A refusal by the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// What was attempted.
    pub what: &'static str,
    /// The kernel's answer.
    pub errno: i32,
    /// `kernel.perf_event_paranoid`, if it can be read.
    pub paranoid: Option<i32>,
}

impl Refused {
    pub(super) fn new(what: &'static str, error: &io::Error) -> Refused {
        let text = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
        Refused {
            what,
            errno: error.raw_os_error().unwrap_or(0),
            paranoid: text.ok().and_then(|text| text.trim().parse().ok()),
        }
    }

    /// Whether a smaller ring might be granted.
    pub(super) fn is_about_memory(&self) -> bool {
        self.what.starts_with("mmap") && matches!(self.errno, libc::EPERM | libc::ENOMEM)
    }

    /// What would help, as one clause.
    pub fn remedy(&self) -> &'static str {
        match (self.what, self.errno) {
            (READING, libc::ENOENT) => {
                "mount tracefs: `mount -t tracefs tracefs /sys/kernel/tracing`"
            }
            (READING, libc::EACCES | libc::EPERM) => {
                "let this user read /sys/kernel/tracing, and grant CAP_PERFMON"
            }
            (OTHER_IDS, _) => {
                "in a container of its own process ids the kernel's cannot be known: share the \
                 host's (`--pid=host`)"
            }
            (TRACEPOINT, libc::EPERM | libc::EACCES) => {
                "grant CAP_PERFMON, or set kernel.perf_event_paranoid to -1"
            }
            (TRACEPOINT, libc::ENOENT | libc::EINVAL) => "this kernel offers no such tracepoint",
            _ => self.remedy_of_events(),
        }
    }

    fn remedy_of_events(&self) -> &'static str {
        match self.errno {
            libc::EPERM | libc::ENOMEM if self.is_about_memory() => {
                "other processes of this user hold the locked memory: raise \
                 kernel.perf_event_mlock_kb or RLIMIT_MEMLOCK"
            }
            libc::EPERM | libc::EACCES if self.paranoid.is_some_and(|level| level > 2) => {
                "set kernel.perf_event_paranoid to 2, or grant CAP_PERFMON"
            }
            libc::EPERM | libc::EACCES => {
                "the container's seccomp profile or a security module forbids perf_event_open: \
                 allow it there"
            }
            libc::ENOSYS => "this kernel or sandbox has no perf events",
            libc::EMFILE | libc::ENFILE => "raise RLIMIT_NOFILE",
            libc::EINVAL | libc::E2BIG => "needs Linux 4.3 or later",
            libc::ENOENT | libc::EOPNOTSUPP => "this kernel offers no software events",
            _ => "no remedy known",
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = io::Error::from_raw_os_error(self.errno);
        write!(f, "{} refused: {error}; perf_event_paranoid is ", self.what)?;
        match self.paranoid {
            Some(level) => write!(f, "{level}")?,
            None => f.write_str("not readable")?,
        }
        write!(f, "; {}", self.remedy())
    }
}

impl std::error::Error for Refused {}
