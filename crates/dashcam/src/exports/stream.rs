//! Live streams: a session's records into a file or a unix socket, while the service runs.
//!
//! How it works: a thread of ours reads the session's queue, gathers records by thread into blocks,
//! and writes the chunks of a capture, so that `show` and `why` read a stream like any capture,
//! also one that was cut off. Tables are written again when they have grown; META about once a
//! second and at the end, with what became of the records.
//!
//! What it promises: a sink that is slow fills the session's own queue, whose policy then decides;
//! a sink that breaks ends the stream, and `status` says why. Nothing else is affected.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use capture::write::CaptureWriter;
use format::block::{pack_pair, BLOCK_WORDS, FIRST_NS, FIRST_SEQ, HEADER_WORDS, OWNER};
use format::json::Object;
use format::record::Kind;
use format::region::{thread, word, THREAD_WORDS};
use recorder::{Filter, Session, SessionCounts};
use ring::OnFull;
use sys::ours::Fd;
use sys::thread::Quiet;

use crate::lock::lock;
use crate::recording::meta;
use crate::recording::Recording;
use crate::running::{running, LiveStream};

/// Pause between two reads of the queue.
const PAUSE: Duration = Duration::from_millis(20);
/// META and grown tables are written this often.
const REPORT_NS: u64 = 1_000_000_000;
/// Records read before the sink is written to.
const BATCH: usize = 10_000;
/// A sink that takes nothing for this long is given up when the stream closes.
const CLOSE_NS: u64 = 3_000_000_000;

/// What a stream takes and where it goes.
#[derive(Clone, Debug)]
pub struct StreamConfig {
    sink: String,
    kinds: u64,
    names: Vec<String>,
    min_ns: u64,
    on_full: OnFull,
    memory: usize,
}

const KINDS: &[(&str, &[Kind])] = &[
    ("request", &[Kind::RequestBegin, Kind::RequestEnd, Kind::Task]),
    ("span", &[Kind::Span]),
    ("event", &[Kind::Event]),
    ("gc", &[Kind::Gc]),
    ("sample", &[Kind::Sample, Kind::NativeStack]),
    ("off_cpu", &[Kind::OffCpu]),
    ("vital", &[Kind::Vital]),
    ("metric", &[Kind::Metric]),
    ("trace", &[Kind::Trace, Kind::Link]),
];

impl StreamConfig {
    /// Everything, to `sink`: a file that does not exist yet, or `unix:PATH` of a socket that
    /// somebody listens on. The queue takes 4 MiB and drops the newest when it is full.
    pub fn to(sink: &str) -> StreamConfig {
        StreamConfig {
            sink: sink.to_owned(),
            kinds: u64::MAX,
            names: Vec::new(),
            min_ns: 0,
            on_full: OnFull::DropNewest,
            memory: 4 << 20,
        }
    }

    /// Sets one setting by name: `kinds`
    /// (`request,span,event,gc,sample,off_cpu,vital,metric,trace`), `names` (words or globs with
    /// commas, as in `slow`), `min_duration` (`5ms`), `on_full` (`drop-newest`, `overwrite-oldest`,
    /// `block:5ms`), `memory` (`8KiB` to `1GiB`). Errors name the setting, the value found, and
    /// what is wanted.
    pub fn set(mut self, name: &str, value: &str) -> Result<StreamConfig, String> {
        let wrong = |wanted: &str| Err(format!("{name}: found {value:?}, wanted {wanted}"));
        let list = || value.split(',').map(str::trim).filter(|word| !word.is_empty());
        match name {
            "kinds" => {
                self.kinds = 0;
                for word in list() {
                    let Some((_, kinds)) = KINDS.iter().find(|(known, _)| *known == word) else {
                        return wrong(
                            "some of request, span, event, gc, sample, off_cpu, vital, metric, trace",
                        );
                    };
                    self.kinds |= kinds.iter().map(|kind| 1 << *kind as u64).sum::<u64>();
                }
            }
            "names" => self.names = list().map(str::to_owned).collect(),
            "min_duration" => {
                self.min_ns = trigger::duration_ns(name, value).map_err(|e| e.to_string())?;
            }
            "memory" => {
                let bytes = trigger::bytes(name, value).map_err(|e| e.to_string())?;
                if !(8 << 10..=1 << 30).contains(&bytes) {
                    return wrong("8KiB to 1GiB");
                }
                self.memory = bytes as usize;
            }
            "on_full" => {
                self.on_full = match value.split_once(':') {
                    None if value == "drop-newest" => OnFull::DropNewest,
                    None if value == "overwrite-oldest" => OnFull::OverwriteOldest,
                    Some(("block", limit)) => {
                        let limit_ns =
                            trigger::duration_ns(name, limit).map_err(|e| e.to_string())?;
                        OnFull::Block { limit_ns }
                    }
                    _ => return wrong("drop-newest, overwrite-oldest or block:TIME, as block:5ms"),
                }
            }
            _ => {
                let wanted = "kinds, names, min_duration, on_full or memory";
                return Err(format!("stream setting: found {name:?}, wanted {wanted}"));
            }
        }
        Ok(self)
    }

    fn filter(&self) -> Filter {
        let names = self.names.clone();
        let passes = move |name: &str| names.iter().any(|n| trigger::name_matches(n, name));
        Filter {
            kinds: self.kinds,
            min_ns: self.min_ns,
            names: (!self.names.is_empty()).then(|| Box::new(passes) as Box<_>),
        }
    }
}

/// A live stream; closed when dropped, at `stop`, and at the process's end.
pub struct Stream {
    inner: Arc<Inner>,
}

struct Inner {
    sink: String,
    session: Session,
    stop: AtomicBool,
    /// Why it ended by itself; empty while it runs.
    error: Mutex<String>,
    thread: Mutex<Option<Quiet>>,
}

type Out = BufWriter<Fd>;

impl Stream {
    /// Opens a stream. Errors: dashcam is not recording, the sink cannot be opened (a socket whose
    /// listener has no room for one more client, too), 63 sessions are open.
    pub fn open(config: &StreamConfig) -> Result<Stream, String> {
        let parts = running().ok_or("dashcam is not recording; start it first")?;
        let session = Session::open(config.filter(), config.on_full, config.memory)?;
        let inner = Arc::new(Inner {
            sink: config.sink.clone(),
            session,
            stop: AtomicBool::new(false),
            error: Mutex::default(),
            thread: Mutex::default(),
        });
        let own = inner.clone();
        let on = parts.recording.clone();
        let (started, outcome) = sync_channel(1);
        let thread = sys::thread::spawn_quiet("dashcam-stream", move || {
            // An error: the sink is in the host's table, like all descriptors of ours.
            let _ = sys::ours::move_apart();
            match open_sink(&own.sink) {
                Ok(out) => {
                    let _ = started.send(Ok(()));
                    run(&own, &on, out);
                }
                Err(why) => drop(started.send(Err(why))),
            }
        })
        .map_err(|error| format!("no thread for the stream: {error}"))?;
        let lost = || Err("the stream's thread ended by an internal error".to_owned());
        outcome.recv().unwrap_or_else(|_| lost())?;
        *lock(&inner.thread) = Some(thread);
        let stream: Weak<dyn LiveStream> = Arc::downgrade(&(inner.clone() as Arc<dyn LiveStream>));
        let mut streams = lock(&parts.streams);
        streams.retain(|stream| stream.strong_count() > 0);
        streams.push(stream);
        Ok(Stream { inner })
    }

    /// What became of the records it met.
    pub fn counts(&self) -> SessionCounts {
        self.inner.session.counts()
    }

    /// Why it ended by itself; None while it runs.
    pub fn error(&self) -> Option<String> {
        Some(lock(&self.inner.error).clone()).filter(|error| !error.is_empty())
    }

    /// Writes what is there and ends the stream; waits for a slow sink at most three seconds.
    /// Errors: the sink had broken, or takes nothing.
    pub fn close(&self) -> Result<SessionCounts, String> {
        self.inner.close()?;
        Ok(self.counts())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.inner.close();
    }
}

impl LiveStream for Inner {
    /// As `Stream::close`.
    fn close(&self) -> Result<(), String> {
        if !self.session.is_ours() {
            return Ok(());
        }
        self.session.pause();
        self.stop.store(true, Ordering::Release);
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread {
            let deadline_ns = sys::clock::now_ns() + CLOSE_NS;
            while !thread.is_finished() {
                if sys::clock::now_ns() > deadline_ns {
                    return Err(format!("{}: takes nothing; the stream is left to it", self.sink));
                }
                sys::thread::pause_for(Duration::from_millis(1));
            }
            thread.join();
        }
        match lock(&self.error).as_str() {
            "" => Ok(()),
            error => Err(error.to_owned()),
        }
    }

    fn json(&self) -> String {
        counts_json(&self.session, &self.sink).text("error", &lock(&self.error)).finish()
    }
}

fn counts_json(session: &Session, sink: &str) -> Object {
    let counts = session.counts();
    let q = counts.queue;
    Object::new()
        .int("session", session.number() as u64)
        .text("sink", sink)
        .int("filtered", counts.filtered)
        .int("offered", q.offered)
        .int("read", q.read)
        .int("overwritten", q.overwritten)
        .int("dropped", q.dropped)
        .int("torn", q.torn)
}

/// The sink is closed by forked children: a reader waits for its end as long as any process has it
/// open.
fn open_sink(sink: &str) -> Result<Out, String> {
    let refused = |error: std::io::Error| format!("{sink}: cannot stream there: {error}");
    let out = match sink.strip_prefix("unix:") {
        Some(path) => {
            let stream = sys::local::connect(Path::new(path)).map_err(refused)?;
            stream.set_nonblocking(false).map_err(refused)?;
            OwnedFd::from(stream)
        }
        None => {
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(0o600);
            OwnedFd::from(options.open(PathBuf::from(sink)).map_err(refused)?)
        }
    };
    Ok(BufWriter::with_capacity(64 * 1024, Fd::from(out)))
}

fn run(inner: &Inner, recording: &Recording, out: Out) {
    if let Err(error) = pump(inner, recording, out) {
        inner.session.pause();
        *lock(&inner.error) = format!("{}: the stream ended: {error}", inner.sink);
    }
}

fn pump(inner: &Inner, recording: &Recording, out: Out) -> std::io::Result<()> {
    let from_ns = sys::clock::now_ns();
    let region = recording.recorder.region();
    let text = || {
        let sources = recording.sources.list();
        let lasting = meta::lasting(recording.config(), &recording.runtime, &sources);
        let lasting = lasting.raw("session", &counts_json(&inner.session, &inner.sink).finish());
        let to_ns = sys::clock::now_ns();
        meta::capture(lasting, region, "live stream", from_ns, to_ns, "{}")
    };
    let mut writer = CaptureWriter::new(out, &text())?;
    let mut blocks = Blocks::default();
    let (mut reported_ns, mut reported) = (0, [0; 2]);
    loop {
        // Read before the queue: what came until then is in the last round.
        let stopping = inner.stop.load(Ordering::Acquire);
        let mut result = Ok(());
        let read = inner.session.read(BATCH, |tid, record| {
            if result.is_ok() {
                result = blocks.add(tid, record, &mut writer);
            }
        });
        result?;
        let now = sys::clock::now_ns();
        if read == BATCH {
            continue;
        }
        if now.saturating_sub(reported_ns) >= REPORT_NS || stopping {
            let counter = |index: usize| region.header(index).load(Ordering::Relaxed);
            let grown =
                [counter(word::NAMES) + counter(word::STACKS), counter(word::THREAD_SERIAL)];
            if grown != reported || stopping {
                writer.tables(&tables(recording)?)?;
                reported = grown;
            }
            writer.meta(&text())?;
            // Behind the tables, which hold every name that these blocks refer to.
            blocks.flush(&mut writer)?;
            reported_ns = now;
        }
        if stopping {
            return writer.finish(0).map(drop);
        }
        sys::thread::pause_for(PAUSE);
    }
}

/// The four tables; the accounts of the threads are those of the black box and not of this stream.
fn tables(recording: &Recording) -> std::io::Result<[Vec<u64>; 4]> {
    let mut tables = recording.recorder.region().copy_tables()?;
    for row in tables[0].chunks_exact_mut(THREAD_WORDS) {
        (row[thread::PROGRESS], row[thread::DROPPED]) = (0, 0);
    }
    Ok(tables)
}

/// Records gathered into blocks, one a thread, numbered as they came.
#[derive(Default)]
struct Blocks {
    by_tid: HashMap<u32, Vec<u64>>,
    numbers: HashMap<u32, u64>,
}

impl Blocks {
    fn add<W: Write>(
        &mut self,
        tid: u32,
        record: &[u64],
        out: &mut CaptureWriter<W>,
    ) -> std::io::Result<()> {
        let block = self.by_tid.entry(tid).or_default();
        if block.len() + record.len() > BLOCK_WORDS {
            out.block(block)?;
            block.clear();
        }
        let number = self.numbers.entry(tid).or_default();
        if block.is_empty() {
            block.resize(HEADER_WORDS, 0);
            block[OWNER] = pack_pair(tid, u32::MAX);
            block[FIRST_SEQ] = *number;
            block[FIRST_NS] = record.get(1).copied().unwrap_or_default();
        }
        block.extend_from_slice(record);
        *number += 1;
        Ok(())
    }

    fn flush<W: Write>(&mut self, out: &mut CaptureWriter<W>) -> std::io::Result<()> {
        for block in self.by_tid.values_mut().filter(|block| !block.is_empty()) {
            out.block(block)?;
            block.clear();
        }
        if self.by_tid.len() > 4096 {
            // Threads come and go: what is not in use is not remembered for ever. Their numbers
            // begin again, should they come back.
            self.by_tid.clear();
            self.numbers.clear();
        }
        out.flush()
    }
}
