//! Gaps in the heartbeat of the recorder: times in which the whole process may have been stopped.

use std::collections::BTreeMap;

use capture::read::Capture;

/// A gap in the recorder's heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Last beat before.
    pub from_ns: u64,
    /// First beat after.
    pub to_ns: u64,
    /// Time the recorder's thread was runnable without a CPU in it.
    pub run_delay_ns: u64,
    /// Time the cgroup was throttled in it.
    pub throttled_ns: u64,
}

impl Gap {
    /// All of a capture, by time. The recorder writes three vitals at each late beat, at the same
    /// instant.
    pub fn all(capture: &Capture) -> Vec<Gap> {
        let mut found: BTreeMap<u64, Gap> = BTreeMap::new();
        for row in &capture.vitals {
            let name = capture.name(row.name);
            if !name.starts_with("recorder_gap_") {
                continue;
            }
            let (to_ns, value) = (row.t_ns, row.value as u64);
            let none = Gap { from_ns: to_ns, to_ns, run_delay_ns: 0, throttled_ns: 0 };
            let gap = found.entry(to_ns).or_insert(none);
            match name {
                "recorder_gap_ns" => gap.from_ns = to_ns.saturating_sub(value),
                "recorder_gap_run_delay_ns" => gap.run_delay_ns = value,
                "recorder_gap_throttled_ns" => gap.throttled_ns = value,
                _ => {}
            }
        }
        found.into_values().filter(|gap| gap.from_ns < gap.to_ns).collect()
    }
}
