//! What the recorder would have written of a run: records, blocks, tables, and the file.
//!
//! How it works: the engine says what happens; here it becomes the words of `format`'s records, in
//! blocks of the thread that writes them (samples and switch records in the sampler's), and at the
//! end a file through `capture::write`. What took a millisecond, or a request too long, is written
//! twice, as the recorder does.
//!
//! What it promises: nothing reaches the file that the recorder could not know. In particular:
//! without switch records there are only samples, and no record names a waker, which takes root.
//! What is missing on purpose: spans, events and metrics of the program, raw native stacks: native
//! code has names already, as in a capture that left its host.

pub mod sampler;
mod sampling;
pub mod tables;
mod task_samples;

use std::collections::BTreeMap;

use capture::write::{checksum, CaptureWriter};
use format::block::{pack_pair, Head, State, BLOCK_WORDS, HEADER_WORDS};
use format::chunk::SYMBOLS;
use format::json::{texts, Object};
use format::record::{flag, header, Kind, Sample, STILL_OUT};
use format::region::{thread, THREAD_WORDS};
use format::symbols::Placed;
use format::{off_cpu, own_span};

use crate::engine::{Request, START_NS};
use crate::program::{Program, HOME, MS, SITE, STDLIB};
use crate::random::Random;
use tables::Tables;

/// The sampler's thread.
const SAMPLER: u32 = 4000;
/// What is shorter is written once.
const LONG_NS: u64 = MS;
/// What a container's default seccomp profile makes of the source of switch records.
const REFUSED: &str = "off: perf_event_open: operation not permitted";
/// The name of all requests.
const REQUEST: &str = "GET /";

/// Bytes of the end mark of a file.
const END_BYTES: usize = 12 + 16;

/// The file with one more chunk in front of its end mark.
fn with_chunk(mut file: Vec<u8>, tag: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let end = file.split_off(file.len() - END_BYTES);
    file.extend(tag);
    file.extend((payload.len() as u32).to_le_bytes());
    file.extend(checksum(tag, payload).to_le_bytes());
    file.extend(payload);
    file.extend(end);
    file
}

/// A thread's block under way.
struct Open {
    words: Vec<u64>,
    first_ns: u64,
    records: u64,
}

/// A thread's line of the thread table.
struct Line {
    name: u32,
    start_ns: u64,
    end_ns: u64,
    records: u64,
}

/// The name of the program it is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The service.
    pub service: String,
    /// The host.
    pub host: String,
    /// The version of the service.
    pub version: String,
    /// When recording began, Unix epoch ns.
    pub epoch_ns: u64,
}

impl Default for Label {
    fn default() -> Label {
        let [service, host, version] = ["simulated", "sim", ""].map(str::to_owned);
        Label { service, host, version, epoch_ns: 1_764_000_000_000_000_000 }
    }
}

/// Records, and what they name.
pub struct Recorder {
    /// Names, code and stacks of the capture.
    pub tables: Tables,
    switches: bool,
    open: BTreeMap<u32, Open>,
    full: Vec<(u64, Vec<u64>)>,
    threads: BTreeMap<u32, Line>,
    begun: BTreeMap<u32, u64>,
    request: u32,
    slow_ns: u64,
    loss: (u64, Random),
    end_ns: u64,
    lost: u64,
    /// Samples that have native frames.
    native: Vec<Placed>,
}

impl Recorder {
    /// For a run.
    pub fn new(program: &Program, switches: bool) -> Recorder {
        let mut tables = Tables::new();
        let request = tables.name(REQUEST);
        Recorder {
            tables,
            switches,
            open: BTreeMap::new(),
            full: Vec::new(),
            threads: BTreeMap::new(),
            begun: BTreeMap::new(),
            request,
            slow_ns: program.slow_ns,
            loss: (program.loss_percent, Random::of(program.seed, 2)),
            end_ns: START_NS,
            lost: 0,
            native: Vec::new(),
        }
    }

    /// A record of the thread `owner`.
    pub fn append(&mut self, owner: u32, words: &[u64], now: u64) {
        let room = self.open.get(&owner).map_or(0, |open| BLOCK_WORDS - open.words.len());
        if room < words.len() {
            self.close_block(owner, now);
            let records = self.threads.get(&owner).map_or(0, |line| line.records);
            let mut head = vec![0; HEADER_WORDS];
            head[1] = pack_pair(owner, owner - SAMPLER + 1);
            (head[2], head[3]) = (records, now);
            self.open.insert(owner, Open { words: head, first_ns: now, records: 0 });
        }
        if let Some(open) = self.open.get_mut(&owner) {
            open.words.extend_from_slice(words);
            open.records += 1;
        }
        if let Some(line) = self.threads.get_mut(&owner) {
            line.records += 1;
        }
    }

    /// A sample; the native frames of its stack go beside.
    pub fn sample(&mut self, sample: &Sample) {
        let stack = self.tables.without_native(sample.stack);
        if stack != sample.stack {
            let (tid, t_ns) = (sample.tid, sample.t_ns);
            self.native.push(Placed { tid, t_ns, stack: sample.stack });
        }
        self.append(SAMPLER, &Sample { stack, ..*sample }.encode(), sample.t_ns);
    }

    fn close_block(&mut self, owner: u32, now: u64) {
        let Some(mut open) = self.open.remove(&owner) else { return };
        let committed = open.words.len() as u32;
        open.words[0] = Head { generation: 1, committed, state: State::Closed }.pack();
        (open.words[4], open.words[6]) = (now, open.records);
        let (percent, random) = &mut self.loss;
        if *percent > 0 && random.chance(*percent as f64 / 100.0) {
            self.lost += 1;
            return;
        }
        self.full.push((open.first_ns, open.words));
    }

    /// A thread begins.
    pub fn thread_begins(&mut self, id: u32, name: &str, now: u64) {
        let name = self.tables.name(name);
        self.threads.insert(id, Line { name, start_ns: now, end_ns: 0, records: 0 });
    }

    /// A thread ends.
    pub fn thread_ends(&mut self, id: u32, now: u64) {
        if let Some(line) = self.threads.get_mut(&id) {
            line.end_ns = now;
        }
    }

    /// A thread came back to a CPU.
    pub fn off_cpu(&mut self, id: u32, (out, preempted): (u64, bool), now: u64, cpu: usize) {
        if self.switches && id != SAMPLER && out < now {
            let words = off_cpu::encode(id, preempted, (out, now), Some(cpu as u16));
            self.append(SAMPLER, &words, now);
        }
    }

    /// At the end: a thread is off the CPU.
    pub fn still_out(&mut self, id: u32, (out, preempted): (u64, bool), now: u64) {
        if self.switches && id != SAMPLER {
            let words = off_cpu::encode(id, preempted, (out, STILL_OUT), None);
            self.append(SAMPLER, &words, now);
        }
    }

    /// A handler begins.
    pub fn request_begins(&mut self, request: &Request, tid: u32, on_loop: bool, now: u64) {
        let flags = if on_loop { flag::ASYNC } else { 0 };
        let head = header(Kind::RequestBegin, 4, flags, self.request);
        let words = [head, request.known_ns, request.id, request.started_ns];
        self.append(tid, &words, now);
    }

    /// A request is answered.
    pub fn request_ends(&mut self, request: &Request, tid: u32, on_loop: bool, now: u64) {
        let flags = if on_loop { flag::ASYNC } else { 0 };
        let begin = [
            header(Kind::RequestBegin, 4, flags, self.request),
            request.known_ns,
            request.id,
            request.started_ns,
        ];
        let end =
            [header(Kind::RequestEnd, 4, flags, self.request), request.known_ns, now, request.id];
        self.append(tid, &end, now);
        if now - request.known_ns >= self.slow_ns {
            self.again(tid, begin, now);
            self.again(tid, end, now);
        }
    }

    fn again(&mut self, tid: u32, [head, a, b, c]: [u64; 4], now: u64) {
        self.append(SAMPLER, &[header(Kind::Again, 6, 0, 0), u64::from(tid), head, a, b, c], now);
    }

    /// At the end: a request is open.
    pub fn still_open(&mut self, request: &Request, tid: u32, on_loop: bool, now: u64) {
        let flags = flag::AGAIN | if on_loop { flag::ASYNC } else { 0 };
        let words = [
            header(Kind::RequestBegin, 5, flags, self.request),
            request.known_ns,
            request.id,
            request.started_ns,
            u64::from(tid),
        ];
        self.append(SAMPLER, &words, now);
    }

    /// A collection begins or ends.
    pub fn collection(&mut self, tid: u32, begins: bool, now: u64) {
        if begins {
            self.begun.insert(tid, now);
        } else if let Some(begin) = self.begun.remove(&tid) {
            self.interval(tid, [header(Kind::Gc, 4, 2, 0), begin, now, 0], now);
        }
    }

    /// A fork begins or ends.
    pub fn fork(&mut self, tid: u32, begins: bool, now: u64) {
        if begins {
            self.begun.insert(tid, now);
        } else if let Some(begin) = self.begun.remove(&tid) {
            let name = self.tables.name(own_span::FORK);
            self.interval(tid, [header(Kind::Span, 4, 0, name), begin, now, 0], now);
        }
    }

    fn interval(&mut self, tid: u32, record: [u64; 4], now: u64) {
        self.append(tid, &record, now);
        if record[2] - record[1] >= LONG_NS {
            self.again(tid, record, now);
        }
    }

    /// A job of an executor's begins or ends, for a request.
    pub fn task(
        &mut self,
        tid: u32,
        (queued, begun, end): (u64, u64, Option<u64>),
        request: u64,
        now: u64,
    ) {
        let head = header(Kind::Task, 5, 0, 0);
        self.append(tid, &[head, queued, begun, end.unwrap_or(STILL_OUT), request], now);
    }

    /// A counter's value.
    pub fn vital(&mut self, name: &str, value: u64, now: u64) {
        let name = self.tables.name(name);
        let words = [header(Kind::Vital, 3, 0, name), now, (value as f64).to_bits()];
        self.append(SAMPLER, &words, now);
    }

    /// No more records.
    pub fn finish(&mut self, now: u64) {
        let owners: Vec<u32> = self.open.keys().copied().collect();
        // What is written last is not overwritten.
        self.loss.0 = 0;
        for owner in owners {
            self.close_block(owner, now);
        }
        self.full.sort_by_key(|(first_ns, _)| *first_ns);
        self.end_ns = now;
    }

    /// The capture, as bytes of a file.
    pub fn capture(&self, program: &Program, label: &Label) -> std::io::Result<Vec<u8>> {
        let mut writer = CaptureWriter::new(Vec::new(), &self.meta(program, label))?;
        let [names, codes, stacks] = self.tables.words();
        let tables = [self.thread_table(), names, codes, stacks];
        writer.tables(&tables)?;
        writer.open_spans(&[])?;
        for (_, block) in &self.full {
            writer.block(block)?;
        }
        let file = writer.finish(0)?;
        let symbols = self.tables.symbols(self.native.clone());
        Ok(if symbols.is_empty() { file } else { with_chunk(file, SYMBOLS, &symbols.encode()) })
    }

    fn thread_table(&self) -> Vec<u64> {
        let mut words = Vec::with_capacity(self.threads.len() * THREAD_WORDS);
        for (id, line) in &self.threads {
            let mut slot = [0; THREAD_WORDS];
            slot[thread::IDENT] = pack_pair(*id, id - SAMPLER + 1);
            slot[thread::NAME] = u64::from(line.name);
            slot[thread::START_NS] = line.start_ns;
            slot[thread::END_NS] = line.end_ns;
            slot[thread::PROGRESS] = 2 * line.records;
            words.extend(slot);
        }
        words
    }

    fn meta(&self, program: &Program, label: &Label) -> String {
        let settings = Object::new()
            .text("slow", &format!("{}ms", program.slow_ns / MS))
            .int("period_ns", sampler::PERIOD_NS)
            .number("budget_percent", sampler::BUDGET_PERCENT)
            .int("threads", sampler::MOST_THREADS as u64)
            .flag("switches", true)
            .finish();
        let sources = Object::new()
            .text("native_stacks", "off: simulated")
            .text("running_stacks", "off: simulated")
            .text("stacks", "on")
            .text("switches", if self.switches { "on" } else { REFUSED })
            .text("threads", "on")
            .text("vitals", "on")
            .text("wakers", "off: tracepoints need root")
            .finish();
        let losses = Object::new().int("dropped_no_block", 0).finish();
        Object::new()
            .text("version", env!("CARGO_PKG_VERSION"))
            .text("service", &label.service)
            .text("host", &label.host)
            .raw("labels", &Object::new().text("version", &label.version).finish())
            .text("runtime", "Python 3.11.7")
            .raw("stdlib", &texts([STDLIB]))
            .raw("site", &texts([SITE]))
            .text("package", &format!("{SITE}/dashcam"))
            .int("cpus", u64::from(program.host.cpus))
            .raw("settings", &settings)
            .raw("sources", &sources)
            .text("reason", &format!("{REQUEST} was slow"))
            .int("pid", 3999)
            .int("start_ns", START_NS)
            .int("start_epoch_ns", label.epoch_ns)
            .text("ids_seed", &format!("{:016x}", program.seed | 1))
            .int("from_ns", START_NS)
            .int("to_ns", self.end_ns)
            .raw("losses", &losses)
            .text("home", HOME)
            .finish()
    }
}
