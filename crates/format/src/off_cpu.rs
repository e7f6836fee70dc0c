//! Intervals off the CPU, from switch records.
//!
//! ```text
//!  word 0: kind 6 (8) | 3 words (8) | flags (16) | tid (32)
//!       1: out, it left the CPU
//!       2: in, it came back; u64::MAX (`record::STILL_OUT`): it had not
//!  flags: PREEMPTED; above, the number of the CPU it came back to, and one: 0 is not known
//! ```

use crate::words::{header, Kind};

/// It was preempted: it was runnable for the whole interval.
const PREEMPTED: u16 = 1;
const CPU_SHIFT: u32 = 1;

/// The words of an interval off the CPU; `in_ns` is `STILL_OUT` for one that has not ended.
pub fn encode(
    tid: u32,
    preempted: bool,
    (out_ns, in_ns): (u64, u64),
    cpu: Option<u16>,
) -> [u64; 3] {
    let known = cpu.and_then(|cpu| cpu.checked_add(1));
    // A number too large for its bits is stored as not known.
    let cpu = known.filter(|cpu| *cpu <= u16::MAX >> CPU_SHIFT).unwrap_or(0) << CPU_SHIFT;
    let preempted = if preempted { PREEMPTED } else { 0 };
    [header(Kind::OffCpu, 3, cpu | preempted, tid), out_ns, in_ns]
}

/// Whether it was preempted, and to which CPU it came back.
pub(crate) fn flags(flags: u16) -> (bool, Option<u16>) {
    (flags & PREEMPTED != 0, (flags >> CPU_SHIFT).checked_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{decode, Record};

    #[test]
    fn an_off_cpu_interval_survives_encoding() {
        for (cpu, preempted) in [(None, true), (Some(0), false), (Some(8191), true)] {
            let words = encode(7, preempted, (5, 9), cpu);
            let record = Record::OffCpu { tid: 7, preempted, out_ns: 5, in_ns: 9, cpu };
            assert_eq!(decode(&words), Some((3, record)));
        }
        let words = encode(7, true, (5, 9), Some(u16::MAX));
        let record = Record::OffCpu { tid: 7, preempted: true, out_ns: 5, in_ns: 9, cpu: None };
        assert_eq!(decode(&words), Some((3, record)), "no such number fits");
    }
}
