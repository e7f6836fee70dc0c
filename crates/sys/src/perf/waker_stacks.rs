//! Stacks of wakers: registers and the top of the stack of threads of this process at the instant
//! at which they wake others.
//!
//! How it works: the tracepoint fires while the waker runs. A second event of it on each CPU makes
//! the kernel copy that thread's registers and stack, for a few wakers into a few rings of their
//! own: a stack is as large as 300 switch records, and may be lost; it must not push switch records
//! out.
//!
//! ```text
//!   ring of switches, cpu 0:  ... | A out | W wakes A |          | A in |      order is kept there
//!   ring of stacks,   cpu 0:  ...         | W wakes A + stack of W |           joined by ids, time
//!   filter:   (pid==A || ...) && !(common_flags & interrupts) && (common_pid==W || ...)
//! ```
//!
//! | reads | emits | unit | from |
//! | --- | --- | --- | --- |
//! | `sched:sched_waking`: RAW, REGS_USER, STACK_USER | `Woke`, stack | ns | 4.3; x86-64 |
//! | PERF_RECORD_LOST | `lost()` | records | 2.6.31 |
//!
//! What it promises: the kernel evaluates the filter first, and copies only stacks of the threads
//! in the list, none of them in an interrupt: other processes' stacks are not copied. If the id of
//! a thread that ended goes to another process before the list changes, its sample is dropped
//! unread, and its space given back. Bounded: `RING_BYTES` of locked memory a CPU, `MOST_WAKERS`
//! threads; a full ring loses the newest stacks and counts them. Nothing is open before the first
//! list, nor after an empty one. Cost: `examples/costs.rs`.
//!
//! What it does not promise: the time of a sample is not that of the same wakeup in the switch
//! records, but some hundred nanoseconds before or behind it (the kernel reads the clock for each).
//! CPUs that come online are covered from the next list on.
//!
//! What is missing on purpose: the kernel's call chains, which follow frame pointers that release
//! builds do not have; aarch64, as `watch`.

use super::attr;
use super::limits::{descriptor_budget, none_left, online_cpus, page_bytes};
use super::refused::{Refused, TRACEPOINT};
use super::ring::Mapping;
use super::user_stack::{self, Seen, REGISTERS};
use super::wakings::{Layout, Wakings, MOST_FOLLOWED};
use crate::fork::Mark;
use crate::ours::{self, Fd};
use std::ffi::CString;
use std::io;

/// The largest number of threads whose stacks are copied when they wake one that is followed: the
/// filter's text must fit into a page.
pub const MOST_WAKERS: usize = 96;
/// Bytes of a stack: a waker's innermost frames say what it released.
const STACK_BYTES: usize = 8 << 10;
/// Bytes of a ring, first choice and last: seven stacks fit, or one.
const RING_BYTES: (usize, usize) = (64 << 10, 16 << 10);
/// `perf_event_attr::sample_type` is in the kernel's order: ids, time, raw bytes, registers, stack.
const RAW_AT: u64 = 24;

const RECORD_LOST: u32 = 2;
const RECORD_SAMPLE: u32 = 9;

/// The waker of a thread, and its stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Woke {
    /// The woken thread.
    pub tid: u32,
    /// The waker.
    pub by: u32,
    /// The waker's registers, and when.
    pub seen: Seen,
}

/// A decision about a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// Its stack is wanted.
    This,
    /// It is not.
    Skip,
    /// It is not needed yet; nor is what came behind it on that CPU.
    Later,
}

/// Stacks of wakers. One reader; may move between threads.
pub struct WakerStacks {
    rings: Vec<Ring>,
    events: Vec<Fd>,
    pid: u32,
    home: Mark,
    tally: Tally,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    lost: u64,
    garbled: u64,
    foreign: u64,
}

struct Ring {
    cpu: u16,
    holder: Fd,
    map: Mapping,
    layout: Layout,
    /// Everything before this was read.
    at: u64,
}

impl WakerStacks {
    /// Without a list: nothing is open. None on an architecture whose registers are not known.
    pub fn new() -> Option<WakerStacks> {
        (REGISTERS != 0).then(|| WakerStacks {
            rings: Vec::new(),
            events: Vec::new(),
            pid: std::process::id(),
            home: Mark::new(),
            tally: Tally::default(),
        })
    }

    /// Copies from now on the stacks of these threads of this process, at most `MOST_WAKERS`, when
    /// they wake one of `tids`, at most `MOST_FOLLOWED`; the rest is left out. With none of either
    /// it ends, and the content of the rings is gone. Errors: the previous list remains. Blocks as
    /// `SwitchStream::follow`.
    pub fn follow(&mut self, of: &Wakings, tids: &[u32], wakers: &[u32]) -> Result<(), Refused> {
        let refused = |e: io::Error| Refused::new(TRACEPOINT, &e);
        if !self.home.is_here() || tids.is_empty() || wakers.is_empty() {
            self.events.clear();
            self.rings.clear();
            return Ok(());
        }
        let filter = CString::new(filter(tids, wakers)).map_err(|e| refused(e.into()))?;
        self.cover(of)?;
        let mut events = Vec::with_capacity(self.rings.len());
        for ring in &self.rings {
            let event = match attr::open_waker_stacks(of.id(), ring.cpu, REGISTERS, STACK_BYTES) {
                // The CPU went offline.
                Err(e) if e.raw_os_error() == Some(libc::ENODEV) => continue,
                event => event.map_err(refused)?,
            };
            attr::filter(&event, &filter).map_err(refused)?;
            attr::redirect(&event, &ring.holder).map_err(refused)?;
            events.push(event);
        }
        for event in &events {
            attr::enable(event, true).map_err(refused)?;
        }
        self.events = events;
        Ok(())
    }

    /// A ring for each CPU that has none.
    fn cover(&mut self, of: &Wakings) -> Result<(), Refused> {
        let mut cpus = online_cpus();
        // Two a CPU, and one more for a moment.
        if 3 * cpus.len() > descriptor_budget() || !ours::has_room(cpus.len()) {
            return Err(none_left());
        }
        cpus.retain(|cpu| !self.rings.iter().any(|ring| ring.cpu == *cpu));
        let mut bytes = RING_BYTES.0;
        for cpu in cpus {
            let (holder, map) = loop {
                match open_ring(cpu, bytes) {
                    Err(e) if e.is_about_memory() && bytes > RING_BYTES.1 => bytes /= 2,
                    ring => break ring?,
                }
            };
            self.rings.push(Ring { cpu, holder, map, layout: of.layout(), at: 0 });
        }
        Ok(())
    }

    /// The next sample that `take` wants, its stack in `stack` (from the stack pointer on, at most
    /// `STACK_BYTES`, empty when it could not be read). Oldest first on each CPU; no order among
    /// CPUs. No allocation once `stack` has its room, no system call. In a forked child there is
    /// none.
    pub fn next(
        &mut self,
        stack: &mut Vec<u8>,
        mut take: impl FnMut(&Woke) -> Take,
    ) -> Option<Woke> {
        if !self.home.is_here() {
            return None;
        }
        let (pid, tally) = (self.pid, &mut self.tally);
        self.rings.iter_mut().find_map(|ring| {
            let (map, layout) = (&ring.map, ring.layout);
            let head = map.head();
            let mut records = Records { word: |at| map.word(at), at: ring.at, head, pid, layout };
            let found = records.next(tally, stack, &mut take);
            if records.at != ring.at {
                ring.at = records.at;
                ring.map.set_tail(ring.at);
            }
            found
        })
    }

    /// Stacks the kernel had no room for, as far as it has reported.
    pub fn lost(&self) -> u64 {
        self.tally.lost
    }

    /// Times a ring held something that is no record; what was left of it was thrown away.
    pub fn garbled(&self) -> u64 {
        self.tally.garbled
    }

    /// Samples of other processes, dropped unread.
    pub fn foreign(&self) -> u64 {
        self.tally.foreign
    }

    /// Descriptors held.
    pub fn descriptors(&self) -> usize {
        self.rings.len() + self.events.len()
    }
}

fn open_ring(cpu: u16, bytes: usize) -> Result<(Fd, Mapping), Refused> {
    let holder = attr::open_holder(cpu).map_err(|e| Refused::new("perf_event_open", &e))?;
    let map = Mapping::new(&holder, bytes.max(page_bytes()), page_bytes());
    Ok((holder, map.map_err(|e| Refused::new("mmap of a ring", &e))?))
}

/// Which wakeups: of one of `tids`, outside of interrupts, by one of `wakers`. In this order, since
/// the kernel stops at the first part that does not hold, and evaluates it at each wakeup on the
/// machine.
fn filter(tids: &[u32], wakers: &[u32]) -> String {
    let any = |field: &str, ids: &[u32], most: usize| {
        let ids: Vec<String> = ids.iter().take(most).map(|id| format!("{field}=={id}")).collect();
        ids.join("||")
    };
    format!(
        "({})&&!(common_flags&{})&&({})",
        any("pid", tids, MOST_FOLLOWED),
        Layout::INTERRUPTS,
        any("common_pid", wakers, MOST_WAKERS)
    )
}

/// The unread part of a ring, however it is stored.
struct Records<W: Fn(u64) -> u64> {
    word: W,
    at: u64,
    head: u64,
    pid: u32,
    layout: Layout,
}

impl<W: Fn(u64) -> u64> Records<W> {
    fn next(
        &mut self,
        tally: &mut Tally,
        stack: &mut Vec<u8>,
        take: &mut impl FnMut(&Woke) -> Take,
    ) -> Option<Woke> {
        while self.at < self.head {
            let (start, header) = (self.at, (self.word)(self.at));
            let (kind, size) = (header as u32, header >> 48);
            if size < 8 || size % 8 != 0 || size > self.head - start {
                tally.garbled += 1;
                self.at = self.head;
                return None;
            }
            let field = |i: u64| (self.word)(start + i * 8);
            let woke = match kind {
                RECORD_SAMPLE => self.waker(tally, start, size),
                RECORD_LOST if size >= 24 => {
                    tally.lost = tally.lost.saturating_add(field(2));
                    None
                }
                _ => None,
            };
            let taken = woke.map(|woke| (woke, take(&woke)));
            if matches!(taken, Some((_, Take::Later))) {
                return None;
            }
            self.at = start + size;
            if let Some((woke, Take::This)) = taken {
                let begin = start + RAW_AT + self.raw_bytes(start);
                let (word, body) = (&self.word, (begin, start + size));
                if let Some(seen) = user_stack::read(word, body, woke.seen.t_ns, stack) {
                    return Some(Woke { seen, ..woke });
                }
            }
        }
        None
    }

    /// The tracepoint's bytes and the number in front of them: together a multiple of 8.
    fn raw_bytes(&self, start: u64) -> u64 {
        (4 + ((self.word)(start + RAW_AT) & 0xffff_ffff)).next_multiple_of(8)
    }

    /// Woken thread and waker, without registers. None: another process, or no such sample.
    fn waker(&self, tally: &mut Tally, start: u64, size: u64) -> Option<Woke> {
        if size < RAW_AT + 8 || RAW_AT + self.raw_bytes(start) > size || self.layout.end() > size {
            return None;
        }
        let word = |at: u64| (self.word)(start + at);
        let (pid, by) = (word(8) as u32, (word(8) >> 32) as u32);
        if pid != self.pid {
            tally.foreign += 1;
            return None;
        }
        let at = self.layout.wakee_at;
        let tid = (word(at / 8 * 8) >> (at % 8 * 8)) as u32;
        let seen = Seen { t_ns: word(16), pc: 0, sp: 0, fp: 0, is_cut: false };
        (tid != 0).then_some(Woke { tid, by, seen })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PID: u32 = 77;
    /// The tracepoint's own 28 bytes behind their number; the woken thread's id is 24 bytes into
    /// them.
    const LAYOUT: Layout = Layout { wakee_at: 28 + 24, flags_at: 28 + 2 };

    fn sample(t_ns: u64, pid: u32, (tid, by): (u32, u32), stack: &[u64]) -> Vec<u64> {
        let ids = u64::from(pid) | u64::from(by) << 32;
        let raw = [36, 0, 0, u64::from(tid) << 32, 0];
        let front = [2, 0xf0, 0x50, 0xc0, stack.len() as u64 * 8];
        let body = [&[ids, t_ns][..], &raw, &front, stack, &[stack.len() as u64 * 8]].concat();
        let header = 9 | ((body.len() as u64 + 1) * 8) << 48;
        [&[header][..], &body].concat()
    }

    fn read(words: &[u64], from: usize, until: u64) -> (Vec<(Woke, usize)>, Tally, u64) {
        let mut ring = vec![u64::MAX; 128];
        for (i, word) in words.iter().enumerate() {
            ring[(from + i) % 128] = *word;
        }
        let word = |at: u64| ring[at as usize / 8 % 128];
        let (at, head) = (from as u64 * 8, (from + words.len()) as u64 * 8);
        let mut records = Records { word, at, head, pid: PID, layout: LAYOUT };
        let (mut tally, mut stack, mut out) = (Tally::default(), Vec::new(), Vec::new());
        let mut take = |woke: &Woke| match woke.seen.t_ns {
            t_ns if t_ns > until => Take::Later,
            t_ns if t_ns % 2 == 1 => Take::Skip,
            _ => Take::This,
        };
        while let Some(woke) = records.next(&mut tally, &mut stack, &mut take) {
            out.push((woke, stack.len()));
        }
        (out, tally, (records.head - records.at) / 8)
    }

    /// With as many bytes of the stack as were asked for.
    fn woke(t_ns: u64, bytes: usize) -> (Woke, usize) {
        let seen = Seen { t_ns, pc: 0xc0, sp: 0x50, fp: 0xf0, is_cut: bytes > 0 };
        (Woke { tid: 5, by: 6, seen }, bytes)
    }

    #[test]
    fn samples_are_read_across_the_end_of_the_ring_as_far_as_they_are_asked_for() {
        let words: Vec<u64> = [
            sample(10, PID, (5, 6), &[1, 2]),
            sample(11, PID, (5, 6), &[1]),
            sample(12, PID, (5, 6), &[]),
            sample(14, PID, (5, 6), &[1, 2, 3]),
        ]
        .concat();
        let last = sample(14, PID, (5, 6), &[1, 2, 3]).len() as u64;
        for from in 0..128 {
            let (all, tally, left) = read(&words, from, 13);
            assert_eq!(all, [woke(10, 16), woke(12, 0)], "from {from}");
            assert_eq!((tally, left), (Tally::default(), last));
        }
    }

    #[test]
    fn what_is_of_another_process_is_not_read() {
        let words = [sample(10, PID + 1, (5, 9), &[7]), sample(12, PID, (5, 6), &[7])].concat();
        let (all, tally, left) = read(&words, 3, 99);
        assert_eq!((all, left), (vec![woke(12, 8)], 0));
        assert_eq!(tally, Tally { foreign: 1, ..Tally::default() });
    }

    #[test]
    fn losses_and_what_is_no_record_are_counted() {
        let lost = vec![2 | 24 << 48, 9, 12];
        let words = [sample(10, PID, (5, 6), &[]), lost, vec![9 | 4000 << 48, 0]].concat();
        let (all, tally, left) = read(&words, 3, 99);
        assert_eq!((all, left), (vec![woke(10, 0)], 0));
        assert_eq!(tally, Tally { lost: 12, garbled: 1, foreign: 0 });
    }

    #[test]
    fn sizes_that_lie_are_not_believed_and_noise_is_never_a_panic() {
        let whole = sample(10, PID, (5, 6), &[1, 2]);
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for round in 0..20_000usize {
            let mut words = whole.clone();
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            // Its header, ids and time stay in half of the rounds.
            let at = 3 * (round % 2) + (state >> 33) as usize % (words.len() - 3 * (round % 2));
            words[at] = if round % 3 == 0 { state } else { state >> 40 };
            read(&words, round % 128, 99);
        }
    }

    #[test]
    fn the_filter_fits_into_a_page() {
        let text = filter(&[u32::MAX >> 10; 99], &[u32::MAX >> 10; 999]);
        assert!(text.len() < 4096, "{}", text.len());
        let few = filter(&[1, 2], &[3]);
        assert_eq!(few, "(pid==1||pid==2)&&!(common_flags&88)&&(common_pid==3)");
    }
}
