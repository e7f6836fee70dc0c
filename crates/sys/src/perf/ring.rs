//! One CPU's ring of records: mapping it, reading what the kernel wrote, giving the space back.
//!
//! ```text
//!   page 0: perf_event_mmap_page      pages 1..: records, byte n of the stream at n mod ring size
//!     1024 data_head  kernel -> us    | ... tail ====== unread ====== head ...        |
//!     1032 data_tail  us -> kernel
//! ```
//!
//! How it works: head and tail count bytes since the beginning and never wrap. Records are
//! multiples of 8 bytes and start at multiples of 8, and the ring is a power of two, so a record
//! may be cut by the end of the ring but an 8-byte word never is: reading by words needs no copy
//! and no special case. A record: word 0 is type (32 bits), misc (16), size in bytes (16); a switch
//! has two more, pid and tid (32 bits each), and the time. A wakeup has them too (the waker's), and
//! behind them the tracepoint's own bytes with their number in front (32 bits).
//!
//! Where records were lost: a full ring drops what does not fit, until its tail moves. The next
//! record that fits has a RECORD_LOST in front, with the time of that record. So the gap begins at
//! the last record before it, and ends when the space was given back, or at that time if it was
//! earlier. A ring that is found full may have dropped records that are not reported yet: `Lost`
//! comes at its end, too.
//!
//! What it promises: nothing the kernel writes makes it read outside the ring, loop or panic. A
//! record that cannot be right (size zero, odd or past the head) costs what is left of the ring and
//! is counted.

use super::switch::{Switch, SwitchKind, Waker};
use super::wakings::Layout;
use crate::clock;
use crate::mem::{self, Extent};
use crate::ours::Fd;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};

const DATA_HEAD_AT: usize = 1024;
const DATA_TAIL_AT: usize = 1032;

const RECORD_LOST: u32 = 2;
const RECORD_SAMPLE: u32 = 9;
const RECORD_SWITCH: u32 = 14;
/// A ring with less room than this may have dropped a record: a wakeup and the RECORD_LOST in front
/// of it take some 120 bytes.
const ROOM_BYTES: u64 = 256;
/// The most bytes to prefetch: they have to stay in a near cache until they are read.
const MOST_PREFETCHED: u64 = 8192;
const MISC_SWITCH_OUT: u16 = 1 << 13;
const MISC_SWITCH_OUT_PREEMPT: u16 = 1 << 14;

/// Counters of what went wrong, since the stream was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Records the kernel dropped because a ring was full.
    pub(super) lost: u64,
    /// Records that are not valid; each one costs the rest of its ring at that moment.
    pub(super) garbled: u64,
    /// Records that came twice, because a thread was covered twice.
    pub(super) repeated: u64,
}

/// The mapped memory. `base` is null once forgotten.
pub(super) struct Mapping {
    base: *mut u8,
    len: usize,
    data_at: usize,
    pid: u32,
}

// SAFETY: the mapping belongs to this value alone: nothing else has its address, and any thread may
// unmap it. Not Sync: a thread would read words that another one gives back.
unsafe impl Send for Mapping {}

impl Mapping {
    pub(super) fn new(holder: &Fd, data_bytes: usize, page_bytes: usize) -> io::Result<Mapping> {
        let len = page_bytes + data_bytes;
        let (access, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), len, access, shared, holder.as_raw_fd(), 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping { base: base.cast(), len, data_at: page_bytes, pid: std::process::id() })
    }

    /// Written by the kernel after the records before it, so it is loaded with Acquire: that makes
    /// those records visible. Partner: the kernel's barrier in `perf_output_put_handle`.
    pub(super) fn head(&self) -> u64 {
        // SAFETY: the first page is mapped as long as we live; the field is 8 bytes, aligned, and
        // only written atomically by the kernel.
        unsafe { AtomicU64::from_ptr(self.base.add(DATA_HEAD_AT).cast()) }.load(Ordering::Acquire)
    }

    fn data_bytes(&self) -> u64 {
        (self.len - self.data_at) as u64
    }

    /// Read by the kernel, which may overwrite everything before it: stored with Release so that
    /// our reads are done by then. Partner: the kernel's control dependency on `data_tail`.
    pub(super) fn set_tail(&self, tail: u64) {
        // SAFETY: as in `head`; only we write this field.
        unsafe { AtomicU64::from_ptr(self.base.add(DATA_TAIL_AT).cast()) }
            .store(tail, Ordering::Release);
    }

    /// Prefetches the unread bytes, which another CPU wrote: side by side, where reading them would
    /// wait for one line after the other.
    fn prefetch(&self, at: u64, head: u64) {
        let size = self.len - self.data_at;
        let length = head.saturating_sub(at).min(MOST_PREFETCHED) as usize;
        let offset = at as usize & (size - 1);
        let first = length.min(size - offset);
        let data = self.base as usize + self.data_at;
        let extent = |offset, length| Extent { address: data + offset, length };
        mem::prefetch(&[extent(offset, first), extent(0, length - first)], length);
    }

    /// The 8 bytes at `at` in the stream; `at` is a multiple of 8.
    pub(super) fn word(&self, at: u64) -> u64 {
        let offset = at as usize & (self.len - self.data_at - 1);
        // SAFETY: the data area has a power of two bytes, so the masked offset lies inside it, and
        // being a multiple of 8 leaves room for the word. Between tail and head the kernel does
        // not write, since the mapping is writable: it would overwrite in a read-only one. A word
        // before the tail would be a data race.
        unsafe { self.base.add(self.data_at + offset).cast::<u64>().read() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // A forked child has no such mapping (the kernel marks it VM_DONTCOPY), and something of
        // the host may lie at the address by now.
        if self.base.is_null() || self.pid != std::process::id() {
            return;
        }
        // SAFETY: the mapping is ours, whole, and in this process; nothing refers to it any more.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}

/// One CPU's ring and the position in it.
pub(super) struct Ring {
    cpu: u16,
    map: Mapping,
    holder: Fd,
    head: u64,
    /// Everything before this has been parsed.
    at: u64,
    /// Bytes in it at the last `look`.
    used: u64,
    /// It was full then, and that is not reported yet.
    full: bool,
    /// Time of the last record parsed.
    last_ns: u64,
    /// When the space of all that was parsed had been given back.
    pub(super) released_ns: u64,
    /// The layout of wakeups; None while no thread was ever followed.
    pub(super) wakings: Option<Layout>,
    /// The next switch, parsed but not delivered.
    next: Option<Switch>,
    /// The last switch parsed, to recognise its twin.
    last: Option<(u32, SwitchKind)>,
    pub(super) tally: Tally,
}

impl Ring {
    /// Maps the ring of `holder`, an event on `cpu`. `data_bytes` is a power of two of pages.
    pub(super) fn map(
        cpu: u16,
        holder: Fd,
        data_bytes: usize,
        page_bytes: usize,
    ) -> io::Result<Ring> {
        Ok(Ring {
            cpu,
            map: Mapping::new(&holder, data_bytes, page_bytes)?,
            holder,
            head: 0,
            at: 0,
            used: 0,
            full: false,
            last_ns: clock::now_ns(),
            released_ns: 0,
            wakings: None,
            next: None,
            last: None,
            tally: Tally::default(),
        })
    }

    pub(super) fn cpu(&self) -> u16 {
        self.cpu
    }

    pub(super) fn holder(&self) -> &Fd {
        &self.holder
    }

    /// Leaves the mapping alone when dropped.
    pub(super) fn forget_mapping(&mut self) {
        self.map.base = std::ptr::null_mut();
    }

    /// Loads how much the kernel has written by now.
    pub(super) fn scan(&mut self, pid: u32) {
        self.head = self.map.head();
        // All before `at` was given back by the drain before.
        self.used = self.head.saturating_sub(self.at);
        self.full = self.used + ROOM_BYTES > self.map.data_bytes();
        self.map.prefetch(self.at, self.head);
        if self.next.is_none() {
            self.advance(pid);
        }
    }

    /// Whether anything was in it at the last `look`. If not, it has had room since its space was
    /// last given back: losses reported later happened before that.
    pub(super) fn held_some(&self) -> bool {
        self.used > 0
    }

    /// How full it was at the last `look`: 0 to 1.
    pub(super) fn filled(&self) -> f64 {
        self.used as f64 / self.map.data_bytes() as f64
    }

    /// Time of the next switch, if one is there.
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.next.map(|switch| switch.t_ns)
    }

    /// Delivers the switches up to and including `limit_ns`; at least one must be there.
    pub(super) fn deliver(&mut self, limit_ns: u64, pid: u32, each: &mut impl FnMut(Switch)) {
        while let Some(switch) = self.next.filter(|switch| switch.t_ns <= limit_ns) {
            self.advance(pid);
            each(switch);
        }
    }

    /// Gives the space of everything parsed back to the kernel.
    pub(super) fn release(&mut self) {
        self.map.set_tail(self.at);
    }

    fn advance(&mut self, pid: u32) {
        let map = &self.map;
        let mut reader = Records {
            word: |at| map.word(at),
            at: self.at,
            head: self.head,
            pid,
            cpu: self.cpu,
            wakings: self.wakings,
            last_ns: self.last_ns,
            released_ns: self.released_ns,
        };
        self.next = reader.next_switch(&mut self.last, &mut self.tally);
        if self.next.is_none() && std::mem::take(&mut self.full) {
            self.next = Some(reader.lost_until(u64::MAX));
        }
        (self.at, self.last_ns) = (reader.at, reader.last_ns);
    }
}

/// The unread part of a stream of records, however it is stored.
pub(super) struct Records<W: Fn(u64) -> u64> {
    pub(super) word: W,
    pub(super) at: u64,
    pub(super) head: u64,
    pub(super) pid: u32,
    pub(super) cpu: u16,
    pub(super) wakings: Option<Layout>,
    /// Time of the last record before `at`.
    pub(super) last_ns: u64,
    /// Until when the records before it took their space.
    pub(super) released_ns: u64,
}

impl<W: Fn(u64) -> u64> Records<W> {
    /// Moves behind the next switch of our process, or the next gap, and returns it; counts what it
    /// skips.
    pub(super) fn next_switch(
        &mut self,
        last: &mut Option<(u32, SwitchKind)>,
        tally: &mut Tally,
    ) -> Option<Switch> {
        while self.at < self.head {
            let start = self.at;
            let header = (self.word)(start);
            let (kind, misc, size) = (header as u32, (header >> 32) as u16, header >> 48);
            if size < 8 || size % 8 != 0 || size > self.head - start {
                tally.garbled += 1;
                *last = None;
                self.at = self.head;
                return Some(self.lost_until(u64::MAX));
            }
            self.at = start + size;
            if matches!(kind, RECORD_SWITCH | RECORD_SAMPLE) && size >= 24 {
                self.last_ns = (self.word)(start + 16);
            }
            match kind {
                RECORD_SWITCH if size >= 24 => {
                    let Some(switch) = self.switch(start, misc) else {
                        continue;
                    };
                    if *last != Some((switch.tid, switch.kind)) {
                        *last = Some((switch.tid, switch.kind));
                        return Some(switch);
                    }
                    tally.repeated += 1;
                }
                RECORD_SAMPLE => {
                    if let Some(waking) = self.waking(start, size) {
                        return Some(waking);
                    }
                }
                RECORD_LOST if size >= 24 => {
                    tally.lost = tally.lost.saturating_add((self.word)(start + 16));
                    *last = None;
                    let next_ns = if size >= 40 { (self.word)(start + size - 8) } else { u64::MAX };
                    return Some(self.lost(next_ns));
                }
                // THROTTLE, UNTHROTTLE and whatever a later kernel adds: no record that we use.
                _ => {}
            }
        }
        None
    }

    /// Records were lost behind the last one, and before the next one, of `next_ns`.
    fn lost(&self, next_ns: u64) -> Switch {
        // A record that fits while another does not is smaller: no space was given back between
        // them.
        let released = Some(self.released_ns).filter(|t| *t > self.last_ns);
        self.lost_until(released.map_or(next_ns, |t| t.min(next_ns)))
    }

    fn lost_until(&self, until_ns: u64) -> Switch {
        let kind = SwitchKind::Lost { until_ns };
        Switch { t_ns: self.last_ns, tid: 0, cpu: self.cpu, kind }
    }

    /// None for the switch of a forked child, or of a thread so dead that it has no id.
    fn switch(&self, start: u64, misc: u16) -> Option<Switch> {
        let ids = (self.word)(start + 8);
        let (pid, tid) = (ids as u32, (ids >> 32) as u32);
        let kind = match (misc & MISC_SWITCH_OUT, misc & MISC_SWITCH_OUT_PREEMPT) {
            (0, _) => SwitchKind::In,
            (_, 0) => SwitchKind::Out,
            _ => SwitchKind::Preempted,
        };
        let ours = pid == self.pid && tid != 0 && tid != u32::MAX;
        ours.then(|| Switch { t_ns: (self.word)(start + 16), tid, cpu: self.cpu, kind })
    }
    /// The woken thread and the waker. `last` is left as it is: a wakeup never comes between the
    /// two records of one switch.
    fn waking(&self, start: u64, size: u64) -> Option<Switch> {
        let layout = self.wakings.filter(|layout| layout.end() <= size)?;
        let bytes = |at: u64| (self.word)(start + at / 8 * 8) >> (at % 8 * 8);
        let tid = bytes(layout.wakee_at) as u32;
        let ids = (self.word)(start + 8);
        let (by_pid, by_tid) = (ids as u32, (ids >> 32) as u32);
        let interrupted = bytes(layout.flags_at) as u8 & Layout::INTERRUPTS != 0;
        let by = match by_pid {
            // The idle thread, or one that ends.
            0 | u32::MAX => Waker::Kernel,
            // The thread that an interrupt interrupts is not the waker.
            _ if interrupted => Waker::Kernel,
            pid if pid == self.pid => Waker::Thread(by_tid),
            pid => Waker::Process(pid),
        };
        let kind = SwitchKind::Woken { by };
        (tid != 0).then(|| Switch { t_ns: (self.word)(start + 16), tid, cpu: self.cpu, kind })
    }
}
