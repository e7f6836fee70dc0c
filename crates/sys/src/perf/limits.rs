//! What this machine and our own allowance give perf events: CPUs, the size of a page, descriptors.

use super::refused::Refused;
use crate::ours;
use std::io;

/// Most descriptors a stream takes, whatever the limit of the host: 4096 events are about 5 MB of
/// kernel memory.
const MAX_EVENTS: usize = 4096;

/// There is no room for another descriptor of ours.
pub(super) fn none_left() -> Refused {
    ours::count_refused();
    Refused::new("perf_event_open", &io::Error::from_raw_os_error(libc::EMFILE))
}

/// How many events may be open: half of the descriptors that we may keep open in all, less the few
/// that other code needs.
pub(super) fn descriptor_budget() -> usize {
    const OF_OTHERS: usize = 8;
    match ours::is_tight() {
        true => 0,
        false => (ours::most().saturating_sub(OF_OTHERS) / 2).min(MAX_EVENTS),
    }
}

pub(super) fn page_bytes() -> usize {
    // SAFETY: sysconf reads a constant of the system.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4096)
}

pub(super) fn online_cpus() -> Vec<u16> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    parse_cpus(&text).unwrap_or_else(|| {
        // SAFETY: sysconf reads a number of the system.
        let n = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
        (0..u16::try_from(n).unwrap_or(1).max(1)).collect()
    })
}

/// The kernel's list format: "0-3,8,10-11". None for anything else.
pub(super) fn parse_cpus(text: &str) -> Option<Vec<u16>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(from.parse::<u16>().ok()?..=to.parse::<u16>().ok()?);
    }
    (!cpus.is_empty()).then_some(cpus)
}
