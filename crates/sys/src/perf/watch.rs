//! A watch: registers and the top of the stack of one thread, each period of its time on a CPU.
//!
//! How it works: a task clock of that thread alone (not inherited, on whichever CPU) overflows each
//! period; the kernel then copies the thread's registers and the innermost bytes of its stack, as
//! they were at that instant, into a small ring of this watch. No signal is sent, the thread is
//! not stopped beyond that interrupt.
//!
//! ```text
//!   a sample: header | pid, tid | time | abi | fp | sp | pc | bytes | stack ... | valid bytes
//! ```
//!
//! | reads | emits | unit | from |
//! | --- | --- | --- | --- |
//! | PERF_RECORD_SAMPLE: REGS_USER, STACK_USER | `Seen`, stack | ns | 3.7; x86-64 |
//! | PERF_RECORD_LOST | `lost()` | records | 2.6.31 |
//!
//! What it promises: at most `STACK_BYTES` of a stack, all of one instant, half of them where the
//! kernel locks no more memory; the ring is bounded and a full one loses the newest samples, which
//! are counted. Nothing the kernel writes makes it read
//! outside the ring. Time in system calls makes no samples (`exclude_kernel`, which is what an
//! unprivileged process may do). Cost (`examples/watch_cost.rs`, one vCPU of AMD EPYC under KVM):
//! 20 us a sample in the thread that is watched, of which 3 us are for the copy and the rest for
//! the timer's interrupt; 2-3 us to read one; nothing while disabled. It does not outlive its
//! thread: no more samples come then. Memory: locked, 68 KiB a watch, charged as those of
//! `SwitchStream`.
//!
//! What is missing on purpose: kernel code and its stacks; aarch64, whose stacks no reader here
//! understands yet.

use super::attr::{self, WatchOf};
use super::limits::{none_left, page_bytes};
use super::refused::Refused;
use super::ring::Mapping;
use super::user_stack::{self, Seen, REGISTERS, STACK_BYTES};
use crate::ours::{self, Fd};
use std::os::fd::AsRawFd;

/// Bytes of a ring for each byte of a stack: three samples fit, with the words around the stack.
const RING_OF_STACKS: usize = 4;
/// Bytes of a stack where memory may be locked, and where it may not.
const SIZES: [usize; 2] = [STACK_BYTES, STACK_BYTES / 2];
/// Bytes of a sample in front of the registers: header, pid and tid, time.
const FRONT: u64 = 24;

const RECORD_LOST: u32 = 2;
const RECORD_SAMPLE: u32 = 9;

/// The watch over one thread. Made disabled.
pub struct Watch {
    event: Fd,
    map: Mapping,
    /// Everything before this was read.
    at: u64,
    on: bool,
    tally: Tally,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    seen: u64,
    lost: u64,
    garbled: u64,
}

impl Watch {
    /// Watches the thread `tid` of this process, one sample each `period_ns` of its time on a CPU.
    /// Errors: `Refused` says what the kernel refused and what would help; ESRCH: it is gone;
    /// ENOSYS: not on this architecture.
    pub fn open(tid: u32, period_ns: u64) -> Result<Watch, Refused> {
        if REGISTERS == 0 {
            let error = std::io::Error::from_raw_os_error(libc::ENOSYS);
            return Err(Refused::new("perf_event_open", &error));
        }
        if !ours::has_room(1) {
            return Err(none_left());
        }
        let [most, less] = SIZES;
        match Watch::of_size(tid, period_ns, most) {
            Err(e) if e.is_about_memory() => Watch::of_size(tid, period_ns, less),
            made => made,
        }
    }

    fn of_size(tid: u32, period_ns: u64, stack_bytes: usize) -> Result<Watch, Refused> {
        let of = WatchOf { tid, period_ns, registers: REGISTERS, stack_bytes: stack_bytes as u32 };
        let event = attr::open_watch(&of).map_err(|e| Refused::new("perf_event_open", &e))?;
        let page = page_bytes();
        let map = Mapping::new(&event, (stack_bytes * RING_OF_STACKS).max(page), page)
            .map_err(|e| Refused::new("mmap of a ring", &e))?;
        Ok(Watch { event, map, at: 0, on: false, tally: Tally::default() })
    }

    /// Starts or stops it: one system call when that changes anything. A kernel error leaves it as
    /// it was.
    pub fn enable(&mut self, on: bool) {
        if self.on != on && attr::enable(&self.event, on).is_ok() {
            self.on = on;
        }
    }

    /// Whether its thread has ended, if the kernel reports that (from Linux 3.17 on). One system
    /// call.
    pub fn ended(&self) -> bool {
        let mut asked = libc::pollfd { fd: self.event.as_raw_fd(), events: 0, revents: 0 };
        // SAFETY: one entry, ours to write; no waiting.
        let ready = unsafe { libc::poll(&mut asked, 1, 0) };
        ready == 1 && asked.revents & libc::POLLHUP != 0
    }

    /// The next sample, oldest first, its stack in `stack` (from the stack pointer on, at most
    /// `STACK_BYTES`, empty when it could not be read). No allocation once `stack` has its room.
    pub fn next(&mut self, stack: &mut Vec<u8>) -> Option<Seen> {
        let map = &self.map;
        let mut records = Records { word: |at| map.word(at), at: self.at, head: map.head() };
        let seen = records.next(&mut self.tally, stack);
        self.at = records.at;
        self.map.set_tail(self.at);
        seen
    }

    /// Samples that came.
    pub fn seen(&self) -> u64 {
        self.tally.seen
    }

    /// Samples the kernel had no room for.
    pub fn lost(&self) -> u64 {
        self.tally.lost
    }

    /// Times the ring held something that is no record; what was left of it was thrown away.
    pub fn garbled(&self) -> u64 {
        self.tally.garbled
    }
}

/// The unread part of a ring, however it is stored.
struct Records<W: Fn(u64) -> u64> {
    word: W,
    at: u64,
    head: u64,
}

impl<W: Fn(u64) -> u64> Records<W> {
    fn next(&mut self, tally: &mut Tally, stack: &mut Vec<u8>) -> Option<Seen> {
        while self.at < self.head {
            let (start, header) = (self.at, (self.word)(self.at));
            let (kind, size) = (header as u32, header >> 48);
            if size < 8 || size % 8 != 0 || size > self.head - start {
                tally.garbled += 1;
                self.at = self.head;
                return None;
            }
            self.at = start + size;
            let field = |i: u64| (self.word)(start + i * 8);
            match kind {
                RECORD_SAMPLE if size >= FRONT => {
                    let (word, body) = (&self.word, (start + FRONT, start + size));
                    if let Some(seen) = user_stack::read(word, body, field(2), stack) {
                        tally.seen += 1;
                        return Some(seen);
                    }
                }
                RECORD_LOST if size >= 24 => tally.lost = tally.lost.saturating_add(field(2)),
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(kind: u64, words: u64) -> u64 {
        kind | (words * 8) << 48
    }

    fn sample(t_ns: u64, stack: &[u64], valid: u64) -> Vec<u64> {
        let words = 9 + stack.len() as u64;
        let front = [header(9, words), 7 | 8 << 32, t_ns, 2, 0xf0, 0x50, 0xc0];
        [&front[..], &[stack.len() as u64 * 8], stack, &[valid]].concat()
    }

    fn read(words: &[u64], from: usize) -> (Vec<(Seen, Vec<u8>)>, Tally) {
        let mut ring = vec![u64::MAX; 64];
        for (i, word) in words.iter().enumerate() {
            ring[(from + i) % 64] = *word;
        }
        let (at, head) = (from as u64 * 8, (from + words.len()) as u64 * 8);
        let mut records = Records { word: |at| ring[at as usize / 8 % 64], at, head };
        let (mut tally, mut stack, mut out) = (Tally::default(), Vec::new(), Vec::new());
        while let Some(seen) = records.next(&mut tally, &mut stack) {
            out.push((seen, stack.clone()));
        }
        assert_eq!(records.at, head, "everything is given back");
        (out, tally)
    }

    fn seen(t_ns: u64) -> Seen {
        Seen { t_ns, pc: 0xc0, sp: 0x50, fp: 0xf0, is_cut: false }
    }

    #[test]
    fn samples_are_read_across_the_end_of_the_ring() {
        let words = [sample(10, &[1, 2], 8), sample(20, &[3, 4, 5], 16)].concat();
        for from in 0..64 {
            let (samples, tally) = read(&words, from);
            let first = 1u64.to_le_bytes().to_vec();
            let second = [3u64.to_le_bytes(), 4u64.to_le_bytes()].concat();
            assert_eq!(samples, [(seen(10), first), (seen(20), second)], "as far as valid");
            assert_eq!(tally, Tally { seen: 2, lost: 0, garbled: 0 });
        }
    }

    #[test]
    fn a_stack_that_fills_its_sample_may_go_on() {
        let words = [sample(10, &[1, 2], 16), sample(20, &[3, 4], 8)].concat();
        let cut: Vec<bool> = read(&words, 3).0.iter().map(|(seen, _)| seen.is_cut).collect();
        assert_eq!(cut, [true, false]);
    }

    #[test]
    fn losses_and_what_is_no_record_are_counted() {
        let lost = [header(2, 3), 9, 12];
        let words = [sample(10, &[], 0), lost.to_vec(), vec![header(9, 500), 0]].concat();
        let (samples, tally) = read(&words, 3);
        assert_eq!(samples, [(seen(10), Vec::new())]);
        assert_eq!(tally, Tally { seen: 1, lost: 12, garbled: 1 });
    }

    #[test]
    fn sizes_that_lie_are_not_believed() {
        let mut words = sample(10, &[1, 2], 16);
        for size in [u64::MAX, 8192, 24, 17, 1 << 63] {
            words[7] = size;
            assert!(read(&words, 0).0.iter().all(|(_, stack)| stack.is_empty()), "{size}");
        }
        words[7] = 16;
        words[10] = u64::MAX;
        assert_eq!(read(&words, 0).0[0].1.len(), 16);
    }

    #[test]
    fn noise_is_never_a_panic() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..20_000 {
            let words: Vec<u64> = (0..24)
                .map(|i| {
                    state =
                        state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    match i % 3 {
                        0 => 9 | (state >> 61) << 51,
                        _ => state,
                    }
                })
                .collect();
            read(&words, (state >> 58) as usize);
        }
    }
}
