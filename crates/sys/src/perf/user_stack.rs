//! Registers of user code and the top of its stack, as the kernel copies them into a sample.
//!
//! ```text
//!   abi | fp | sp | pc | bytes | stack ... | bytes that are valid       words of 8 bytes
//! ```
//!
//! What it promises: nothing the kernel writes makes it read outside of the sample, and at most
//! `STACK_BYTES` are used.

/// Most bytes of a stack in a sample: a buffer of 8 KiB on it (`std::io::copy` has one) leaves its
/// callers in reach.
pub const STACK_BYTES: usize = 16 << 10;
/// The frame pointer, the stack pointer and the instruction pointer as bits of
/// `sample_regs_user`: `PERF_REG_X86_BP`, `_SP`, `_IP` of asm/perf_regs.h. The kernel writes them
/// in the order of the bits.
#[cfg(target_arch = "x86_64")]
pub(super) const REGISTERS: u64 = 1 << 6 | 1 << 7 | 1 << 8;
/// None: their numbers and order are others.
#[cfg(not(target_arch = "x86_64"))]
pub(super) const REGISTERS: u64 = 0;
/// Words in front of the stack.
const FRONT_WORDS: u64 = 5;
/// `PERF_SAMPLE_REGS_ABI_64`.
const ABI_64: u64 = 2;

/// Registers of a thread at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// CLOCK_MONOTONIC.
    pub t_ns: u64,
    /// Instruction pointer: what was about to run.
    pub pc: u64,
    /// Stack pointer; the copied bytes begin there.
    pub sp: u64,
    /// What the frame pointer's register held.
    pub fp: u64,
    /// The stack may go on behind the copied bytes.
    pub is_cut: bool,
}

/// The content of a ring from `begin` to `end`, read by its words; the stack goes into `stack`
/// (from the stack pointer on, empty when it could not be read). None: those are no registers of 64
/// bits.
pub(super) fn read(
    word: impl Fn(u64) -> u64,
    (begin, end): (u64, u64),
    t_ns: u64,
    stack: &mut Vec<u8>,
) -> Option<Seen> {
    let field = |i: u64| word(begin + i * 8);
    if end.saturating_sub(begin) < FRONT_WORDS * 8 || field(0) != ABI_64 {
        return None;
    }
    stack.clear();
    let mut seen = Seen { t_ns, fp: field(1), sp: field(2), pc: field(3), is_cut: false };
    let size = field(4).min(STACK_BYTES as u64);
    // The word behind the stack says how much of it could be read.
    if size == 0 || size % 8 != 0 || begin + FRONT_WORDS * 8 + size + 8 > end {
        return Some(seen);
    }
    let valid = field(FRONT_WORDS + size / 8).min(size) / 8;
    seen.is_cut = valid == size / 8;
    for i in 0..valid {
        stack.extend_from_slice(&field(FRONT_WORDS + i).to_le_bytes());
    }
    Some(seen)
}
