//! The region: one mapping of fixed size that holds everything recorded, and from which a capture
//! can be made even after the process was killed.
//!
//! ```text
//!  page 0     header: words named below
//!  threads    slots of 8 words: each thread that records, and how many records
//!  names      strings: u32 length, bytes, one behind the other; the ordinal is the name's id
//!  codes      2 words each: function name | file name, first line | flags (`code_flag`)
//!  stacks     2 words each: parent node | code, line | depth
//!  open       spans that have begun and not ended: lines of OPEN_LINE_WORDS words, one a thread
//!  blocks     the rest, in blocks of BLOCK_WORDS words
//! ```
//! Names, codes and stacks are append-only and outside the overwritable part: a record's ids stay
//! valid as long as the record does. Each area is bounded; what did not fit is counted.

use crate::block::BLOCK_WORDS;

/// First word of a region: "DCREGN03".
pub const MAGIC: u64 = u64::from_le_bytes(*b"DCREGN03");
/// Words of the header page.
#[cfg(not(loom))]
pub const HEADER_WORDS: usize = 512;
/// For the models: fewer words to keep track of.
#[cfg(loom)]
pub const HEADER_WORDS: usize = 96;
/// Words of a thread slot, one cache line; the indices are in `thread`.
pub const THREAD_WORDS: usize = 8;
/// Words of a code entry.
pub const CODE_WORDS: usize = 2;
/// Words of a stack node.
pub const STACK_WORDS: usize = 2;

/// Words in front of the places of a line of open spans: the owner's tid and serial (0: free,
/// `OPEN_CHANGING`), rest unused.
pub const OPEN_HEAD_WORDS: usize = 4;
/// Words of one open span: begin (0: free place), name id, request, unused.
pub const OPEN_PLACE_WORDS: usize = 4;
/// Open spans of one thread that are stored; those beyond are counted.
#[cfg(not(loom))]
pub const OPEN_SPANS: usize = 15;
/// For the models.
#[cfg(loom)]
pub const OPEN_SPANS: usize = 1;
/// In place of an owner, in a line that changes hands: nothing in it may be read.
pub const OPEN_CHANGING: u64 = u64::MAX;
/// Words of a line: 8 cache lines.
pub const OPEN_LINE_WORDS: usize = OPEN_HEAD_WORDS + OPEN_SPANS * OPEN_PLACE_WORDS;

/// Flags of a code entry.
pub mod code_flag {
    /// Its code names `release`: it may hold a lock taken by hand.
    pub const RELEASES: u32 = 1;
    /// A word of a native stack. The function name says what it is: `0x1a2b`, perhaps a return
    /// address, as offset in a file; `fp`, perhaps a saved frame pointer; `?`, an address in no
    /// file. The file name is `path TAB tag`, where the tag identifies the build (empty: not
    /// known). The line of a stack node is two numbers, in words of 8 bytes. The low 12 bits are
    /// the distance to the next outer node (0: the outermost node; the innermost node, the
    /// instruction pointer, counts as one word below the stack pointer). The bits above them, 0 for
    /// none, are the distance from this word to where a frame pointer points: the frame pointer
    /// that lies in this word (`fp`), or in the word before it (`0x1a2b`). In a stack of a running
    /// thread (`native`) "the word before" the innermost node is the register.
    pub const NATIVE: u32 = 2;
    /// Bits of the distance to the next outer node of a native stack.
    pub const GAP_BITS: u32 = 12;
    /// Bits above them of where a frame pointer points.
    pub const LINK_BITS: u32 = 19;
    /// In a node's line: its address is the instruction that was about to run, not one behind a
    /// call. On the innermost node: the thread was running. On another node: a signal interrupted
    /// the thread there, and the distance leads to where the stack pointer pointed, not a frame
    /// pointer.
    pub const RUNNING: u32 = 1 << 31;
    /// Words from the one that a signal's handler returns to, to the frame pointer and the
    /// instruction pointer of what it interrupted: `struct rt_sigframe` of Linux on x86-64.
    pub const SIGNAL_FP: u32 = 16;
    /// See `SIGNAL_FP`.
    pub const SIGNAL_PC: u32 = 22;
}

/// Word indices in the header page. Counters are written by relaxed atomic adds.
pub mod word {
    /// `MAGIC`.
    pub const MAGIC: usize = 0;
    /// Bytes of the whole region.
    pub const BYTES: usize = 1;
    /// Process id that records here.
    pub const PID: usize = 2;
    /// CLOCK_MONOTONIC at creation, ns.
    pub const START_NS: usize = 3;
    /// CLOCK_REALTIME at creation, ns: with START_NS the epoch pair.
    pub const START_EPOCH_NS: usize = 4;
    /// Name id of the service.
    pub const SERVICE: usize = 5;
    /// Name id of the META text (effective settings and sources), rewritten when they change.
    pub const SETTINGS: usize = 6;
    /// Seed of the ids of traces and spans, see `ids`; 0: a version without them.
    pub const IDS_SEED: usize = 7;
    /// Next block ticket.
    pub const CURSOR: usize = 16;
    /// Bytes of names in use.
    pub const NAME_BYTES: usize = 17;
    /// Number of names.
    pub const NAMES: usize = 18;
    /// Number of code entries.
    pub const CODES: usize = 19;
    /// Number of stack nodes.
    pub const STACKS: usize = 20;
    /// Threads registered so far; the next serial, and where the search for its slot begins.
    pub const THREAD_SERIAL: usize = 21;
    /// Records of threads whose slot went to another thread.
    pub const PAST_RECORDS: usize = 22;
    /// Records given up by such threads.
    pub const PAST_DROPPED: usize = 23;
    /// Blocks taken back from idle owners.
    pub const TAKEN_BACK: usize = 25;
    /// First of the loss counters, in the order of `losses::NAMES`.
    pub const LOSSES: usize = 32;
}

/// Word indices in a thread's slot. A thread that records from inside its own records (a signal
/// handler) has one more slot, with the same tid and a serial of its own.
pub mod thread {
    /// tid (32) | serial (32); 0 never used, `CHANGING` while it goes to another thread.
    pub const IDENT: usize = 0;
    /// Name id, 0: the kernel's name in COMM; in the high half 1 for a thread's nested records.
    pub const NAME: usize = 1;
    /// First record, ns.
    pub const START_NS: usize = 2;
    /// End, ns; 0 while it lives.
    pub const END_NS: usize = 3;
    /// Twice the number of records written or dropped so far, odd while inside one.
    pub const PROGRESS: usize = 4;
    /// Records given up.
    pub const DROPPED: usize = 5;
    /// The kernel's name, 16 bytes.
    pub const COMM: usize = 6;
    /// `IDENT` of a slot that changes hands.
    pub const CHANGING: u64 = u64::MAX;
}

/// Counters of what is missing, one entry for each way to lose something; see docs/losses.md.
pub mod losses {
    macro_rules! losses {
        ($($(#[$doc:meta])* $name:ident = $index:literal, $text:literal;)*) => {
            $($(#[$doc])* pub const $name: usize = $index;)*
            /// Texts as they appear in captures and `status()`.
            pub const NAMES: &[&str] = &[$($text,)*];
        };
    }
    losses! {
        /// Records given up because no block could be taken (all pinned by open owners).
        DROPPED_NO_BLOCK = 0, "dropped_no_block";
        /// Records given up because they came from inside records three deep (signal handlers).
        DROPPED_REENTRANT = 1, "dropped_reentrant";
        /// Records that sessions had no room for; each session has exact counters of its own.
        SESSIONS_DROPPED = 2, "sessions_dropped";
        /// Names refused because the name area is full; such records carry the name "(refused)".
        NAMES_REFUSED = 3, "names_refused";
        /// Code locations refused because the code area is full.
        CODES_REFUSED = 4, "codes_refused";
        /// Stack nodes refused because the stack area is full; the stack is cut there.
        STACKS_REFUSED = 5, "stacks_refused";
        /// Threads that found no slot; they record, but without a name.
        THREADS_UNNAMED = 6, "threads_unnamed";
        /// Requests that found no slot in the table of open requests: judged only at their end.
        REQUESTS_UNTRACKED = 7, "requests_untracked";
        /// Attributes cut or refused (more than 8, or text over 64 bytes).
        ATTRIBUTES_CUT = 8, "attributes_cut";
        /// Context switches the kernel could not store.
        SWITCHES_LOST = 9, "switches_lost";
        /// Stacks that were torn by a concurrent change and given up.
        STACKS_TORN = 10, "stacks_torn";
        /// Passes of the sampler skipped to stay inside the CPU budget.
        PASSES_SKIPPED = 11, "passes_skipped";
        /// Slow requests that fired while a capture was pending or cooling down.
        FIRINGS_SUPPRESSED = 12, "firings_suppressed";
        /// Old captures removed to stay inside the count and size caps.
        CAPTURES_REMOVED = 13, "captures_removed";
        /// Captures that could not be written.
        CAPTURES_FAILED = 14, "captures_failed";
        /// Calls of metrics beyond the bound of series, or with a name or tags that are too long.
        METRICS_REFUSED = 15, "metrics_refused";
        /// Values of metrics that are no finite numbers, or found no place at that instant.
        METRIC_VALUES_REFUSED = 16, "metric_values_refused";
        /// Members of sets that there was no room for.
        METRIC_MEMBERS_REFUSED = 17, "metric_members_refused";
        /// Clients of the control socket that were turned away or gave up half way.
        CONTROL_REFUSED = 18, "control_refused";
        /// Calls of the program's own predicate that failed; it is switched off after ten.
        PREDICATE_FAILED = 19, "predicate_failed";
        /// Firings of a cause that was captured a short while before.
        FIRINGS_REPEATED = 20, "firings_repeated";
        /// Captures that were due and not made: there had been enough that day.
        CAPTURES_OVER_QUOTA = 21, "captures_over_quota";
        /// Hooks that could not be run, failed to end in time, or had too many before them.
        HOOKS_FAILED = 22, "hooks_failed";
        /// Gauges that a rule of `on_metric` had no room for (256 a rule), each window anew.
        RULE_SERIES_REFUSED = 23, "rule_series_refused";
        /// Clients of the OpenMetrics endpoint that were turned away or given up.
        SCRAPES_REFUSED = 24, "scrapes_refused";
        /// Samples of running threads for which the kernel had no room.
        RUNNING_STACKS_LOST = 25, "running_stacks_lost";
        /// Times that a running thread, in or in the way of a slow request, could not be watched:
        /// too many were watched at once, or the kernel refused more.
        THREADS_UNWATCHED = 26, "threads_unwatched";
        /// Spans that no capture shows while they are open: more than 15 at once on a thread, or
        /// more threads with spans than there are lines.
        SPANS_UNTRACKED = 27, "spans_untracked";
        /// Events of one OpenTelemetry span beyond 64.
        SPAN_EVENTS_CUT = 28, "span_events_cut";
        /// Links of one OpenTelemetry span beyond 16.
        SPAN_LINKS_CUT = 29, "span_links_cut";
        /// Times that switch records were paused, because threads were created in a burst.
        SWITCH_PAUSES = 30, "switch_pauses";
        /// Milliseconds without switch records because of that.
        SWITCHES_PAUSED_MS = 31, "switches_paused_ms";
        /// Passes of the sampler that left threads out because their time was used up.
        PASSES_CUT = 32, "passes_cut";
        /// Captures that were written, but not their lines in the log of captures.
        CAPTURES_UNLISTED = 33, "captures_unlisted";
        /// Stacks whose innermost frames changed in every read: kept as last read, or missing.
        STACKS_UNSETTLED = 34, "stacks_unsettled";
        /// Samples of asyncio tasks whose own name was refused because there were 1,000 others;
        /// they carry their coroutine's name.
        TASK_NAMES_REFUSED = 35, "task_names_refused";
        /// Stacks of threads that ended a wait of a slow request for which there was no room or no
        /// time.
        WAKER_STACKS_LOST = 36, "waker_stacks_lost";
        /// Times that a part of dashcam did without a descriptor, or opened it for one read,
        /// because there was no room to keep it.
        DESCRIPTORS_REFUSED = 37, "descriptors_refused";
        /// Descriptors given back since the program came near its limit.
        DESCRIPTORS_GIVEN_BACK = 38, "descriptors_given_back";
        /// Descriptors of ours that the program had closed.
        DESCRIPTORS_CLOSED = 39, "descriptors_closed_by_program";
        /// Times that there was no memory for the next part of the box.
        BOX_STEPS_REFUSED = 40, "box_steps_refused";
        /// Requests whose counts could not be written to the log of requests.
        REQUESTS_UNLISTED = 41, "requests_unlisted";
    }
}

/// Where each area begins and how much it holds, in words. Computed from the total alone, so a
/// reader of a dead process's region needs nothing but the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// First word of the thread table.
    pub threads: usize,
    /// Threads that fit.
    pub thread_slots: usize,
    /// First word of the names.
    pub names: usize,
    /// Bytes the names may take.
    pub name_bytes: usize,
    /// First word of the code entries.
    pub codes: usize,
    /// Code entries that fit.
    pub code_slots: usize,
    /// First word of the stack nodes.
    pub stacks: usize,
    /// Stack nodes that fit.
    pub stack_slots: usize,
    /// First word of the lines of open spans.
    pub open: usize,
    /// Lines: the number of threads whose open spans are stored.
    pub open_lines: usize,
    /// First word of the blocks.
    pub blocks: usize,
    /// Number of blocks.
    pub block_count: usize,
}

/// The smallest region: room for the tables and a few dozen blocks.
pub const MIN_BYTES: usize = 1 << 20;
/// The largest region.
pub const MAX_BYTES: usize = 4 << 30;

impl Layout {
    /// Layout of a region of `bytes` (bounded by MIN_BYTES and MAX_BYTES): names and stacks get a
    /// sixteenth each, codes, threads and open spans a sixty-fourth each, the rest is blocks.
    pub fn of(bytes: usize) -> Layout {
        let words = bytes.clamp(MIN_BYTES, MAX_BYTES) / 8;
        let threads = HEADER_WORDS;
        let thread_slots = words / 64 / THREAD_WORDS;
        let names = threads + thread_slots * THREAD_WORDS;
        let name_words = words / 16;
        let codes = names + name_words;
        let code_slots = words / 64 / CODE_WORDS;
        let stacks = codes + code_slots * CODE_WORDS;
        let stack_slots = words / 16 / STACK_WORDS;
        let open = (stacks + stack_slots * STACK_WORDS).next_multiple_of(8);
        let open_lines = words / 64 / OPEN_LINE_WORDS;
        let blocks = (open + open_lines * OPEN_LINE_WORDS).next_multiple_of(HEADER_WORDS);
        let block_count = (words - blocks) / BLOCK_WORDS;
        let name_bytes = name_words * 8;
        Layout {
            threads,
            thread_slots,
            names,
            name_bytes,
            codes,
            code_slots,
            stacks,
            stack_slots,
            open,
            open_lines,
            blocks,
            block_count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_areas_lie_behind_each_other_and_inside_the_region() {
        for bytes in [MIN_BYTES, 8 << 20, 64 << 20, 1 << 30] {
            let l = Layout::of(bytes);
            assert!(l.threads < l.names && l.names < l.codes && l.codes < l.stacks);
            assert!(l.stacks < l.open && l.open_lines >= 16);
            assert!(l.open + l.open_lines * OPEN_LINE_WORDS <= l.blocks);
            assert!(l.stacks < l.blocks && l.block_count >= 32, "{bytes}: {l:?}");
            assert!((l.blocks + l.block_count * BLOCK_WORDS) * 8 <= bytes);
        }
    }
}
