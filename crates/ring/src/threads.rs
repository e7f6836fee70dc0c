//! The thread table: each thread that records, since when, and how many records. No lock: a thread
//! enters and leaves it in a few stores, also from a signal handler.

use format::block::pack_pair;
use format::region::{losses, thread, word, THREAD_WORDS};

use crate::present::Area;
use crate::sync::{fence, fetch_line, AtomicU64, Ordering};
use crate::Region;

/// What the kernel knows about a thread that begins to record.
#[derive(Clone, Copy, Debug)]
pub struct Newcomer {
    /// Kernel id.
    pub tid: u32,
    /// The kernel's name.
    pub comm: [u8; 16],
    /// It is a second writer of a thread, for records from inside its records.
    pub nested: bool,
    /// Now.
    pub now_ns: u64,
}

impl Region {
    /// A thread is about to enter: prefetches the cache lines that its first record is going to
    /// write (its slot, and the end of the block that it most likely adopts) while the caller reads
    /// its ids. A hint; another thread may get them. Cost: some ns.
    pub fn expect_thread(&self) {
        // Relaxed, here and below: only chooses lines.
        let serial = self.header(word::THREAD_SERIAL).load(Ordering::Relaxed);
        let slot = (serial % self.present_slots() as u64) as usize;
        fetch_line(&self.thread(slot)[thread::IDENT]);
        self.expect_adoption();
    }

    /// Enters a thread: its slot (None: none is free, counted) and its serial. Slots of ended
    /// threads are used again, about oldest first: the serial is where the search begins, so that
    /// threads which come and go share one word and not two. Cost: once around the table at worst,
    /// and that only after as many threads as it has slots.
    pub fn thread_begins(&self, new: &Newcomer) -> (Option<usize>, u32) {
        // Relaxed: only uniqueness matters.
        let serial = self.header(word::THREAD_SERIAL).fetch_add(1, Ordering::Relaxed);
        let slots = self.slots_for(serial);
        let first = (serial % slots as u64) as usize;
        let serial = serial as u32;
        for slot in (first..slots).chain(0..first) {
            if self.enter(slot, new, serial) {
                return (Some(slot), serial);
            }
        }
        self.lose(losses::THREADS_UNNAMED, 1);
        (None, serial)
    }

    /// Slots that are present; at least one.
    fn present_slots(&self) -> usize {
        (self.present(Area::Threads) / THREAD_WORDS).max(1)
    }

    /// The same, with room for one thread more where there is any: threads that ended stay in the
    /// table as long as it has room.
    fn slots_for(&self, serial: u64) -> usize {
        let wanted = (serial + 1).min(self.layout().thread_slots as u64) as usize;
        self.reach(Area::Threads, wanted * THREAD_WORDS);
        self.present_slots()
    }

    fn enter(&self, slot: usize, new: &Newcomer, serial: u32) -> bool {
        let words = self.thread(slot);
        let seen = words[thread::IDENT].load(Ordering::Relaxed);
        let ended = words[thread::END_NS].load(Ordering::Relaxed) != 0;
        if seen == thread::CHANGING || (seen != 0 && !ended) {
            return false;
        }
        // Acquire: pairs with the release in `thread_ends`. A slot that went to another thread in
        // between has another ident.
        let won = words[thread::IDENT].compare_exchange(
            seen,
            thread::CHANGING,
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        if won.is_err() {
            return false;
        }
        if seen != 0 {
            let records = words[thread::PROGRESS].load(Ordering::Relaxed) / 2;
            let dropped = words[thread::DROPPED].load(Ordering::Relaxed);
            self.past(records, dropped);
        }
        // Release fence: pairs with the acquire fence in `copy_threads`: a reader that sees one of
        // the words below also sees `CHANGING`.
        fence(Ordering::Release);
        let (low, high) = new.comm.split_at(8);
        let half = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or_default();
        for (index, value) in [
            (thread::NAME, pack_pair(0, u32::from(new.nested))),
            (thread::START_NS, new.now_ns),
            (thread::END_NS, 0),
            (thread::PROGRESS, 0),
            (thread::DROPPED, 0),
            (thread::COMM, half(low)),
            (thread::COMM + 1, half(high)),
        ] {
            words[index].store(value, Ordering::Relaxed);
        }
        // Release: the slot's words are whole before it has an ident.
        words[thread::IDENT].store(pack_pair(new.tid, serial), Ordering::Release);
        true
    }

    /// Marks a thread as ended; its slot may be used again.
    pub fn thread_ends(&self, slot: usize, now_ns: u64) {
        // Release: pairs with the acquire in `enter`; the thread's last stores come before.
        self.thread(slot)[thread::END_NS].store(now_ns.max(1), Ordering::Release);
    }

    /// Gives a thread an interned name in place of the kernel's.
    pub fn thread_renamed(&self, slot: usize, name: crate::Name) {
        let word = &self.thread(slot)[thread::NAME];
        let nested = word.load(Ordering::Relaxed) >> 32;
        word.store(pack_pair(name, nested as u32), Ordering::Relaxed);
    }

    /// Adds to the totals of threads that are in the table no more.
    pub(crate) fn past(&self, records: u64, dropped: u64) {
        self.header(word::PAST_RECORDS).fetch_add(records, Ordering::Relaxed);
        if dropped > 0 {
            self.header(word::PAST_DROPPED).fetch_add(dropped, Ordering::Relaxed);
        }
    }

    pub(crate) fn thread(&self, slot: usize) -> &'static [AtomicU64] {
        let at = self.layout().threads + slot * THREAD_WORDS;
        &self.words()[at..at + THREAD_WORDS]
    }

    /// Copies of the slots in use, and the totals of threads that have no slot any more (records,
    /// dropped). Slots that change hands at this instant are left out.
    pub fn copy_threads(&self) -> (Vec<u64>, [u64; 2]) {
        let mut out = Vec::new();
        // Before the serials have been around once, a thread's slot is its serial.
        let used = self.header(word::THREAD_SERIAL).load(Ordering::Relaxed);
        for slot in 0..self.present_slots().min(used as usize) {
            let words = self.thread(slot);
            let ident = words[thread::IDENT].load(Ordering::Acquire);
            if ident == 0 || ident == thread::CHANGING {
                continue;
            }
            let begin = out.len();
            out.extend(words.iter().map(|w| w.load(Ordering::Relaxed)));
            // Acquire fence: pairs with the release fence in `enter`.
            fence(Ordering::Acquire);
            if words[thread::IDENT].load(Ordering::Relaxed) == ident {
                out[begin + thread::IDENT] = ident;
            } else {
                out.truncate(begin);
            }
        }
        let past = |index| self.header(index).load(Ordering::Relaxed);
        (out, [past(word::PAST_RECORDS), past(word::PAST_DROPPED)])
    }
}
