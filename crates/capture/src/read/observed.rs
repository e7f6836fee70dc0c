//! What was observed of threads (samples, times off the CPU, wakeups, awaits, native stacks),
//! within a bound where only causes are wanted.
//!
//! How it works: rows are kept until they need more than `most` bytes. A capture with more is read
//! twice: the first time only its requests are kept, and where in the file the observations are.
//! Then the reader says which times it wants, the most important first; as many of them as fit are
//! read, in whole. Of each thread the first and the last row stay as well, since they bound what
//! is known of it. In that second pass the spans of the wanted requests are summed up, too, if
//! those of all requests were too many.
//!
//! What it promises: the same rows for the same file, whatever the machine does; a capture under
//! the bound is read in whole; `Excerpt` says what was left out. The most important time is read
//! even if it alone is past the bound.

use std::collections::HashMap;
use std::io::{self, Read, Seek, SeekFrom};

use format::block::{BLOCK_WORDS, CLOSED_NS, FIRST_NS, HEADER_WORDS};
use format::record::{decode, Await, Kind, Record, Sample};
use format::suspension::Suspension;
use format::wake::Wake;

use super::capture::Capture;
use super::native;
use super::quick::{QuickMap, QuickSet};
use super::rows::{Excerpt, OffCpu, Wish};
use super::tables::to_words;

/// Bytes of rows that are kept of a capture.
pub const MOST_BYTES: usize = 48 << 20;
/// Parts into which the time of a capture is divided to count what lies in each.
const SLOTS: u64 = 1 << 16;

/// Says which times are wanted of a capture of which only requests are read yet; the most important
/// first.
pub type Choose<'a> = dyn Fn(&Capture) -> Vec<Wish> + 'a;

/// A block in the file: when it was written, and the times of its observations.
struct Place {
    at: u64,
    words: u32,
    written_ns: (u64, u64),
    from_ns: u64,
    to_ns: u64,
}

/// The first and the last row of a thread.
#[derive(Default)]
pub struct Ends {
    /// Samples in all.
    count: u64,
    samples: Option<(Sample, Sample)>,
    off: Option<(OffCpu, OffCpu)>,
}

impl Ends {
    /// Takes a sample or a time off the CPU of the thread.
    pub fn take(&mut self, record: &Record<'_>) {
        match *record {
            Record::Sample(sample) => {
                self.count += 1;
                let (first, last) = self.samples.get_or_insert((sample, sample));
                if sample.t_ns < first.t_ns {
                    *first = sample;
                }
                if sample.t_ns > last.t_ns {
                    *last = sample;
                }
            }
            Record::OffCpu { preempted, out_ns, in_ns, cpu, .. } => {
                let row = OffCpu { out_ns, in_ns, preempted, cpu };
                let (first, last) = self.off.get_or_insert((row, row));
                if out_ns < first.out_ns {
                    *first = row;
                }
                if (out_ns, in_ns) > (last.out_ns, last.in_ns) {
                    *last = row;
                }
            }
            _ => (),
        }
    }
}

/// The observations of one capture while it is read.
pub struct Observed {
    /// None: all are kept.
    most: Option<usize>,
    kept: usize,
    all: u64,
    is_over: bool,
    places: Vec<Place>,
    slots: Slots,
    ends: HashMap<u32, Ends>,
    native: Vec<native::Row>,
    /// Rows of `Capture::off_cpu` by thread: there are millions.
    off: QuickMap<u32, Vec<OffCpu>>,
}

impl Observed {
    /// At most `most` bytes of rows, if that many are wanted of a capture of this time.
    pub fn new(most: Option<usize>, from_ns: u64, to_ns: u64) -> Observed {
        Observed {
            most,
            kept: 0,
            all: 0,
            is_over: false,
            places: Vec::new(),
            slots: Slots::new(most.is_some(), from_ns, to_ns),
            ends: HashMap::new(),
            native: Vec::new(),
            off: QuickMap::default(),
        }
    }

    /// A block whose words begin at this byte of the file is read next.
    pub fn block(&mut self, at: u64, words: &[u64]) {
        if self.most.is_some() && words.len() >= HEADER_WORDS {
            let closed_ns = if words[CLOSED_NS] == 0 { u64::MAX } else { words[CLOSED_NS] };
            let (written_ns, words) = ((words[FIRST_NS], closed_ns), words.len() as u32);
            self.places.push(Place { at, words, written_ns, from_ns: u64::MAX, to_ns: 0 });
        }
    }

    /// The block is damaged behind so many words: they are not read again either.
    pub fn ends_at(&mut self, words: usize) {
        if let Some(place) = self.places.last_mut() {
            place.words = words as u32;
        }
    }

    /// Whether blocks can be read once more.
    pub fn can_read_again(&self) -> bool {
        self.most.is_some()
    }

    /// Takes an observation; other records are none of its.
    pub fn take(&mut self, capture: &mut Capture, record: Record<'_>) {
        let Some((from_ns, to_ns, bytes)) = extent(&record) else { return };
        self.all += 1;
        let Some(most) = self.most else { return self.keep(capture, record) };
        if let Some(place) = self.places.last_mut() {
            (place.from_ns, place.to_ns) = (place.from_ns.min(from_ns), place.to_ns.max(to_ns));
        }
        self.slots.count(to_ns, bytes);
        if !self.is_over {
            self.kept += bytes;
            self.is_over = self.kept > most;
            match self.is_over {
                true => self.forget(capture),
                false => return self.keep(capture, record),
            }
        }
        self.bound(&record);
    }

    fn keep(&mut self, capture: &mut Capture, record: Record<'_>) {
        match record {
            Record::Sample(sample) => capture.samples.entry(sample.tid).or_default().push(sample),
            Record::NativeStack(stack) => self.native.push(native::Row::of(stack)),
            Record::Await(seen) => capture.awaits.entry(seen.request).or_default().push(seen),
            Record::Suspension(one) => {
                capture.suspensions.entry(one.request).or_default().push(one);
            }
            Record::Wake(wake) => capture.wakes.entry(wake.tid).or_default().push(wake),
            Record::OffCpu { tid, preempted, out_ns, in_ns, cpu } => {
                let row = OffCpu { out_ns, in_ns, preempted, cpu };
                self.off.entry(tid).or_default().push(row);
            }
            _ => (),
        }
    }

    /// There are too many: only the first and the last of each thread stay.
    fn forget(&mut self, capture: &mut Capture) {
        for sample in std::mem::take(&mut capture.samples).into_values().flatten() {
            self.bound(&Record::Sample(sample));
        }
        for (tid, rows) in std::mem::take(&mut self.off) {
            for OffCpu { out_ns, in_ns, preempted, cpu } in rows {
                self.bound(&Record::OffCpu { tid, preempted, out_ns, in_ns, cpu });
            }
        }
        capture.awaits = HashMap::new();
        capture.suspensions = HashMap::new();
        capture.wakes = HashMap::new();
        self.native = Vec::new();
    }

    fn bound(&mut self, record: &Record<'_>) {
        if let Record::Sample(Sample { tid, .. }) | Record::OffCpu { tid, .. } = *record {
            self.ends.entry(tid).or_default().take(record);
        }
    }

    /// Reads what is wanted of what was too much, once the requests are known: observations, and,
    /// with `sums`, the spans of the wanted requests. Then the rows are all there. Returns the
    /// native stacks.
    pub fn finish(
        mut self,
        capture: &mut Capture,
        source: &mut (impl Read + Seek),
        choose: &Choose<'_>,
        sums: Option<&[u32]>,
    ) -> io::Result<Vec<native::Row>> {
        if self.is_over || sums.is_some() {
            self.read_again(capture, source, &choose(capture), sums)?;
        }
        Ok(self.rows(capture))
    }

    /// The rows are all there. Returns the native stacks.
    pub fn rows(self, capture: &mut Capture) -> Vec<native::Row> {
        capture.off_cpu = self.off.into_iter().collect();
        self.native
    }

    /// `sums`: names of spans that are not summed up.
    fn read_again(
        &mut self,
        capture: &mut Capture,
        source: &mut (impl Read + Seek),
        wishes: &[Wish],
        sums: Option<&[u32]>,
    ) -> io::Result<()> {
        let (requests, unread) = match self.is_over {
            true => self.slots.choose(wishes, self.most.unwrap_or(usize::MAX)),
            false => (wishes.iter().map(|wish| wish.request).collect(), Vec::new()),
        };
        let spans = sums.map(|own| Summed { own, requests: &requests, times: merged(wishes) });
        let (mut bytes, mut words, mut read) = (Vec::new(), Vec::new(), 0);
        for place in std::mem::take(&mut self.places) {
            let has_observations = self.is_over
                && place.from_ns != u64::MAX
                && !is_within(&unread, place.from_ns, place.to_ns);
            let spans = spans.as_ref().filter(|spans| spans.may_be_in(place.written_ns));
            if !has_observations && spans.is_none() {
                continue;
            }
            source.seek(SeekFrom::Start(place.at))?;
            bytes.resize((place.words as usize).min(BLOCK_WORDS) * 8, 0);
            source.read_exact(&mut bytes)?;
            to_words(&bytes, &mut words);
            let mut at = HEADER_WORDS.min(words.len());
            // Spans are most of a large capture: no more of them is decoded than is needed.
            while let Some((kind, len)) = words.get(at).map(|head| (*head as u8, length(*head))) {
                let rest = &words[at..];
                if has_observations && is_observation(kind) {
                    let Some((_, record)) = decode(rest) else { break };
                    let times = extent(&record);
                    if times.is_some_and(|(from, to, _)| !is_within(&unread, from, to)) {
                        read += 1;
                        self.keep(capture, record);
                    }
                } else if let Some(spans) = spans.filter(|_| kind == Kind::Span as u8) {
                    spans.add(capture, rest);
                }
                if len == 0 {
                    break;
                }
                at += len;
            }
        }
        if self.is_over {
            let ends = std::mem::take(&mut self.ends);
            self.add_those(capture, &ends, |from_ns, to_ns| is_within(&unread, from_ns, to_ns));
            let samples = ends.into_iter().map(|(tid, ends)| (tid, ends.count)).collect();
            capture.excerpt = Some(Excerpt { requests, unread, all: self.all, read, samples });
        }
        Ok(())
    }

    /// Adds the first and the last row of each thread to the observations of a time.
    pub fn add_ends(
        &mut self,
        capture: &mut Capture,
        ends: &HashMap<u32, Ends>,
        (from_ns, to_ns): (u64, u64),
    ) {
        // A time off the CPU that is there twice counts once (`completion::settle`).
        self.add_those(capture, ends, |begin_ns, end_ns| {
            begin_ns != end_ns || end_ns < from_ns || begin_ns >= to_ns
        });
    }

    fn add_those(
        &mut self,
        capture: &mut Capture,
        ends: &HashMap<u32, Ends>,
        is_missing: impl Fn(u64, u64) -> bool,
    ) {
        for (tid, ends) in ends {
            let both = ends.samples.into_iter().flat_map(|(first, last)| [first, last]);
            let mut missing: Vec<Sample> = both.filter(|s| is_missing(s.t_ns, s.t_ns)).collect();
            missing.dedup();
            if !missing.is_empty() {
                capture.samples.entry(*tid).or_default().extend(missing);
            }
            let both = ends.off.into_iter().flat_map(|(first, last)| [first, last]);
            let mut missing: Vec<OffCpu> = both.filter(|o| is_missing(o.out_ns, o.in_ns)).collect();
            missing.dedup();
            if !missing.is_empty() {
                self.off.entry(*tid).or_default().extend(missing);
            }
        }
    }
}

/// The spans that are summed up, of some requests only.
struct Summed<'s> {
    /// Names that are left out.
    own: &'s [u32],
    requests: &'s QuickSet<u64>,
    /// When they ran, disjoint, in order.
    times: Vec<(u64, u64)>,
}

impl Summed<'_> {
    /// Whether one may be in a block that was written in this time.
    fn may_be_in(&self, (from_ns, to_ns): (u64, u64)) -> bool {
        let at = self.times.partition_point(|(_, end)| *end < from_ns);
        self.times.get(at).is_some_and(|(begin, _)| *begin <= to_ns)
    }

    /// Adds the span whose words begin here.
    fn add(&self, capture: &mut Capture, words: &[u64]) {
        let &[head, begin_ns, end_ns, request, ..] = words else { return };
        let name = (head >> 32) as u32;
        if self.requests.contains(&request) && !self.own.contains(&name) {
            let sum = capture.span_sums.entry((request, name)).or_default();
            sum.0 += 1;
            sum.1 += end_ns.saturating_sub(begin_ns);
        }
    }
}

/// The length of a record with this first word.
fn length(head: u64) -> usize {
    (head >> 8 & 0xff) as usize
}

/// Whether `extent` has times for records of this kind.
fn is_observation(kind: u8) -> bool {
    use Kind::{Await, NativeStack, OffCpu, Sample, Suspension, Wake};
    [Sample, OffCpu, Wake, Await, Suspension, NativeStack].iter().any(|one| *one as u8 == kind)
}

/// The times of the wishes, disjoint, in order.
fn merged(wishes: &[Wish]) -> Vec<(u64, u64)> {
    let mut times: Vec<(u64, u64)> = wishes.iter().map(|w| (w.from_ns, w.to_ns)).collect();
    times.sort_unstable();
    let mut out: Vec<(u64, u64)> = Vec::new();
    for (from, to) in times {
        match out.last_mut().filter(|last| last.1 >= from) {
            Some(last) => last.1 = last.1.max(to),
            None => out.push((from, to)),
        }
    }
    out
}

/// Whether `[from, to]` lies in one of these times as a whole.
fn is_within(times: &[(u64, u64)], from_ns: u64, to_ns: u64) -> bool {
    let at = times.partition_point(|(_, end)| *end <= from_ns);
    times.get(at).is_some_and(|(begin, end)| *begin <= from_ns && to_ns < *end)
}

/// Begin, end and the bytes of its row, of an observation.
pub fn extent(record: &Record<'_>) -> Option<(u64, u64, usize)> {
    Some(match *record {
        Record::Sample(sample) => (sample.t_ns, sample.t_ns, size_of::<Sample>()),
        // One that has not ended (`STILL_OUT`) reaches into every time behind its begin.
        Record::OffCpu { out_ns, in_ns, .. } => (out_ns, in_ns, size_of::<OffCpu>()),
        Record::Wake(wake) => (wake.t_ns, wake.t_ns, size_of::<Wake>()),
        Record::Await(seen) => (seen.t_ns, seen.t_ns, size_of::<Await>()),
        Record::Suspension(one) => (one.out_ns, one.in_ns, size_of::<Suspension>()),
        Record::NativeStack(stack) => {
            let bytes = size_of::<native::Row>() + 8 * stack.words().count();
            (stack.t_ns, stack.t_ns, bytes)
        }
        _ => return None,
    })
}

/// Bytes of rows by time, and which times were chosen.
struct Slots {
    from_ns: u64,
    width_ns: u64,
    bytes: Vec<usize>,
}

impl Slots {
    fn new(counts: bool, from_ns: u64, to_ns: u64) -> Slots {
        let width_ns = to_ns.saturating_sub(from_ns) / SLOTS + 1;
        let slots = if counts { SLOTS as usize } else { 0 };
        Slots { from_ns, width_ns, bytes: vec![0; slots] }
    }

    fn at(&self, t_ns: u64) -> usize {
        (t_ns.saturating_sub(self.from_ns) / self.width_ns).min(SLOTS - 1) as usize
    }

    fn count(&mut self, t_ns: u64, bytes: usize) {
        let at = self.at(t_ns);
        self.bytes[at] += bytes;
    }

    /// The requests of the wishes that fit into `most` bytes, and the times that nobody wants.
    fn choose(&self, wishes: &[Wish], most: usize) -> (QuickSet<u64>, Vec<(u64, u64)>) {
        let mut chosen = vec![false; self.bytes.len()];
        let (mut requests, mut used) = (QuickSet::default(), 0);
        for wish in wishes {
            let (from, to) = (self.at(wish.from_ns), self.at(wish.to_ns.max(wish.from_ns)));
            let new = (from..=to).filter(|at| !chosen[*at]).map(|at| self.bytes[at]);
            let more = new.sum::<usize>();
            if used + more <= most || requests.is_empty() {
                used += more;
                chosen[from..=to].fill(true);
                requests.insert(wish.request);
            }
        }
        let mut unread: Vec<(u64, u64)> = Vec::new();
        for at in (0..chosen.len()).filter(|at| !chosen[*at]) {
            let begin = |at: usize| self.from_ns.saturating_add(at as u64 * self.width_ns);
            let from = if at == 0 { 0 } else { begin(at) };
            let to = if at + 1 == chosen.len() { u64::MAX } else { begin(at + 1) };
            match unread.last_mut().filter(|last| last.1 == from) {
                Some(last) => last.1 = to,
                None => unread.push((from, to)),
            }
        }
        (requests, unread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_important_times_are_chosen_that_fit_and_the_first_always() {
        let mut slots = Slots::new(true, 0, SLOTS * 10 - 1);
        for t_ns in (0..1000).step_by(10) {
            slots.count(t_ns, 5);
        }
        let wish = |request, from_ns, to_ns| Wish { request, from_ns, to_ns };
        let wishes = [wish(1, 100, 199), wish(2, 300, 399), wish(3, 150, 205), wish(4, 500, 509)];
        let chosen = |most| {
            let (requests, unread) = slots.choose(&wishes, most);
            let mut requests: Vec<u64> = requests.into_iter().collect();
            requests.sort_unstable();
            (requests, unread)
        };
        let rest = u64::MAX;
        assert_eq!(chosen(0), (vec![1], vec![(0, 100), (200, rest)]));
        assert_eq!(chosen(60), (vec![1, 3, 4], vec![(0, 100), (210, 500), (510, rest)]));
        assert_eq!(chosen(100), (vec![1, 2], vec![(0, 100), (200, 300), (400, rest)]));
        assert_eq!(chosen(usize::MAX).0, [1, 2, 3, 4]);
    }
}
