//! What a running thread has used, as two words of its sample.

use crate::record::{flag, Sample};

/// What a running thread has used since it started. Every field wraps; differences are right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Page faults.
    pub faults: u32,
    /// Read from and written to storage, KiB; 31 bits.
    pub storage_kib: u32,
    /// Time in its own code, us; in steps of 10 ms.
    pub user_us: u32,
    /// Time in the kernel, us; in steps of 10 ms.
    pub system_us: u32,
}

impl Usage {
    const KIB: u32 = u32::MAX >> 1;

    /// As the words `target` and `timeout_ns` of a sample with flag USAGE.
    pub fn pack(self) -> (u64, u64) {
        let target = u64::from(self.faults) | (u64::from(self.storage_kib & Usage::KIB) << 32);
        (target, u64::from(self.user_us) | (u64::from(self.system_us) << 32))
    }

    /// What was used since `before`.
    pub fn since(self, before: Usage) -> Usage {
        Usage {
            faults: self.faults.wrapping_sub(before.faults),
            storage_kib: self.storage_kib.wrapping_sub(before.storage_kib) & Usage::KIB,
            user_us: self.user_us.wrapping_sub(before.user_us),
            system_us: self.system_us.wrapping_sub(before.system_us),
        }
    }
}

impl Sample {
    /// What the thread has used so far, if this sample has it.
    pub fn usage(&self) -> Option<Usage> {
        (self.flags & flag::USAGE != 0).then_some(Usage {
            faults: self.target as u32,
            storage_kib: (self.target >> 32) as u32 & Usage::KIB,
            user_us: self.timeout_ns as u32,
            system_us: (self.timeout_ns >> 32) as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_survive_a_wrap() {
        let before = Usage { faults: u32::MAX, storage_kib: Usage::KIB, user_us: 5, system_us: 0 };
        let after = Usage { faults: 4, storage_kib: 9, user_us: 7, system_us: 3 };
        let used = Usage { faults: 5, storage_kib: 10, user_us: 2, system_us: 3 };
        assert_eq!(after.since(before), used);
        assert_eq!(before.pack().0 >> 63, 0, "never taken for a name");
    }
}
