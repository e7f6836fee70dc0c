//! A large capture of a busy service, made without recording one: for measuring readers, and for
//! tests of what they keep in memory.
//!
//! How it works: 30 worker threads serve requests one after the other on a virtual clock: spans
//! with attributes, events, a query of a database, a lock. The recorder's thread samples them and
//! has their switch records. Once in about 40,000 requests one sleeps while it holds the lock, so
//! that it and those that wait for it are slow. Everything is drawn from one seed and written as it
//! happens.
//!
//! What it promises: the same bytes for the same size, in the real format, in the mix of records of
//! a real service (a request takes about 600 bytes, twelve records). What is missing on purpose:
//! native stacks, wakers, event loops; `crates/sim` simulates programs, this only fills files.

mod blocks;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io::{self, Write};

use blocks::{Blocks, Tables};
use format::json::{texts, Object};
use format::metric::{self, Numbers};
use format::off_cpu;
use format::record::{flag, header, Builder, Kind, Sample, Value};
use format::wait::{HolderSource, WaitKind};

const MS: u64 = 1_000_000;
const START_NS: u64 = 5_000 * MS;
const WORKERS: u32 = 30;
const FIRST_TID: u32 = 5001;
const SAMPLER: u32 = 5000;
const PASS_NS: u64 = 10 * MS;
const SLOW_ONE_IN: u64 = 40_009;
const HELD_NS: u64 = 150 * MS;

/// Writes a capture of about `mib` MiB to `out`; returns `out` and the number of requests.
pub fn write<W: Write>(out: W, mib: u64) -> io::Result<(W, u64)> {
    let (tables, known) = Known::new();
    let mut service = Service {
        blocks: Blocks::new(out, &meta(START_NS), tables)?,
        known,
        random: 0x9E37_79B9_7F4A_7C15,
        lock: (0, 0),
        requests: 0,
        late: BTreeMap::new(),
        late_count: 0,
        sampled: [START_NS; WORKERS as usize],
        metrics_ns: START_NS,
    };
    let blocks = &mut service.blocks;
    blocks.thread(SAMPLER, service.known.sampler, START_NS);
    (0..WORKERS).for_each(|w| blocks.thread(FIRST_TID + w, service.known.worker, START_NS));
    blocks.tables()?;
    let end_ns = service.serve(mib << 17)?;
    let requests = service.requests;
    Ok((service.blocks.finish(&meta(end_ns), end_ns)?, requests))
}

/// Ids of the names and stacks.
struct Known {
    sampler: u32,
    worker: u32,
    routes: [u32; 4],
    spans: [u32; 3],
    events: [u32; 2],
    keys: [u32; 4],
    vital: u32,
    metric: u32,
    /// Stacks: computing, in the query, at the lock, asleep under the lock; some of each.
    stacks: [[u32; 8]; 4],
}

impl Known {
    fn new() -> (Tables, Known) {
        let mut t = Tables::default();
        t.name("");
        let app = "/srv/shop/app.py";
        let base = (0..12).fold(0, |stack, depth| {
            let (function, file) = (format!("layer_{depth}"), format!("/srv/shop/layer{depth}.py"));
            t.stack(stack, &function, &file, 20 + depth)
        });
        let mut leaf = |function: &str, line: u32| {
            std::array::from_fn(|way| {
                let caller = t.stack(base, &format!("route_{way}"), app, 30 + way as u32);
                t.stack(caller, function, app, line)
            })
        };
        let stacks =
            [leaf("render", 120), leaf("query", 140), leaf("reserve", 160), leaf("renew", 180)];
        let mut name = |text: &str| t.name(text);
        let known = Known {
            sampler: name("dashcam"),
            worker: name("worker"),
            routes: ["GET /basket", "GET /checkout", "GET /items/{id}", "POST /order"]
                .map(&mut name),
            spans: ["auth", "db.query", "render"].map(&mut name),
            events: ["cache.miss", "row"].map(&mut name),
            keys: ["user", "statement", "rows", "status"].map(&mut name),
            vital: name("process_rss_bytes"),
            metric: name("orders"),
            stacks,
        };
        (t, known)
    }
}

struct Service<W: Write> {
    blocks: Blocks<W>,
    known: Known,
    random: u64,
    /// The lock's last holder, and until when it has it.
    lock: (u32, u64),
    requests: u64,
    /// Records of the recorder's thread, by the time at which it writes them.
    late: BTreeMap<(u64, u64), Vec<u64>>,
    late_count: u64,
    /// When each worker was sampled last.
    sampled: [u64; WORKERS as usize],
    metrics_ns: u64,
}

impl<W: Write> Service<W> {
    /// Serves until the file has so many words; returns the time then.
    fn serve(&mut self, words: u64) -> io::Result<u64> {
        let mut next: BinaryHeap<Reverse<(u64, u32)>> =
            (0..WORKERS).map(|w| Reverse((START_NS + u64::from(w) * 7_919, w))).collect();
        let mut last_ns = START_NS;
        while let Some(Reverse((now, worker))) = next.pop() {
            self.flush(now)?;
            last_ns = last_ns.max(now);
            if self.blocks.words() >= words {
                continue;
            }
            let end_ns = self.request(worker, now)?;
            next.push(Reverse((end_ns + 20_000 + self.below(50_000), worker)));
        }
        self.flush(u64::MAX)?;
        Ok(last_ns + MS)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 16) % limit
    }

    /// What the recorder's thread writes at `t_ns`.
    fn later(&mut self, t_ns: u64, words: &[u64]) {
        self.late_count += 1;
        self.late.insert((t_ns, self.late_count), words.to_vec());
    }

    /// Writes what the recorder's thread has to write before `now`.
    fn flush(&mut self, now: u64) -> io::Result<()> {
        while let Some(entry) = self.late.first_entry().filter(|e| e.key().0 < now) {
            let t_ns = entry.key().0;
            self.blocks.append(SAMPLER, &entry.remove(), t_ns)?;
        }
        if now != u64::MAX && now >= self.metrics_ns + 1_000 * MS {
            let numbers = Numbers::Count(self.requests as f64);
            let (flags, words, len) = metric::encode(0, self.metrics_ns, now, &numbers);
            let mut made =
                Builder::<20>::new(Kind::Metric, flags, self.known.metric, &words[..len]);
            self.blocks.append(SAMPLER, made.finish().0, now)?;
            let value = (self.requests as f64 * 10.0).to_bits();
            let vital = [header(Kind::Vital, 3, 0, self.known.vital), now, value];
            self.blocks.append(SAMPLER, &vital, now)?;
            self.metrics_ns = now;
        }
        Ok(())
    }

    fn span(&mut self, tid: u32, of: usize, times: (u64, u64), id: u64) -> io::Result<()> {
        let fixed = [times.0, times.1, id];
        let mut made = Builder::<20>::new(Kind::Span, 0, self.known.spans[of], &fixed);
        if of == 1 {
            let [_, statement, rows, _] = self.known.keys;
            made.attribute(statement, Value::Text("SELECT orders WHERE id = ?"));
            made.attribute(rows, Value::Int((id % 37) as i64));
        }
        self.blocks.append(tid, made.finish().0, times.1)
    }

    fn event(&mut self, tid: u32, of: usize, t_ns: u64, id: u64) -> io::Result<()> {
        let fixed = [t_ns, id];
        let mut made = Builder::<20>::new(Kind::Event, 0, self.known.events[of], &fixed);
        if of == 1 {
            made.attribute(self.known.keys[2], Value::Int((id % 11) as i64));
        }
        self.blocks.append(tid, made.finish().0, t_ns)
    }

    /// One request of a worker, begun at `begin`; returns its end.
    fn request(&mut self, worker: u32, begin: u64) -> io::Result<u64> {
        self.requests += 1;
        let (id, tid) = (self.requests, FIRST_TID + worker);
        let route = self.known.routes[(self.below(16) as usize + 3) / 5];
        let head = header(Kind::RequestBegin, 4, 0, route);
        self.blocks.append(tid, &[head, begin, id, begin], begin)?;
        let mut now = begin + 60_000 + self.below(60_000);
        self.event(tid, 0, begin + 30_000, id)?;
        self.span(tid, 0, (begin + 10_000, now), id)?;
        let asked = now + 20_000;
        let answered = asked + 300_000 + self.below(600_000);
        now = answered + 30_000;
        self.span(tid, 1, (asked - 5_000, now), id)?;
        for row in 0..3 {
            self.event(tid, 1, answered + 5_000 + row * 5_000, id)?;
        }
        // At the lock: free, held by one that sleeps under it, or about to be.
        let wants = now + 10_000;
        let (holder, until) = self.lock;
        let got = wants.max(until);
        let mut asleep = None;
        if id % SLOW_ONE_IN == 0 {
            asleep = Some((got + 10_000, got + 10_000 + HELD_NS));
            self.lock = (tid, got + HELD_NS + 20_000);
        } else if until > wants {
            self.lock.1 = until + 15_000;
        }
        let after = asleep.map_or(got, |(_, to)| to);
        let end = after + 150_000 + self.below(200_000);
        self.span(tid, 2, (after + 10_000, end - 20_000), id)?;
        let [user, _, _, status] = self.known.keys;
        let fixed = [begin, end, id];
        let mut made = Builder::<20>::new(Kind::RequestEnd, 0, route, &fixed);
        made.attribute(user, Value::Int((id % 5_000) as i64));
        made.attribute(status, Value::Int(200));
        self.blocks.append(tid, made.finish().0, end)?;
        let waits = [
            Some((asked, answered, WaitKind::SocketRead, 1, 0)),
            (got > wants).then_some((wants, got, WaitKind::Futex, 2, holder)),
            asleep.map(|(from, to)| (from, to, WaitKind::Sleep, 3, 0)),
        ];
        let waits: Vec<Wait> = waits.into_iter().flatten().collect();
        self.observe(worker, (begin, end), &waits);
        if id % 4_001 == 0 {
            let gc = [header(Kind::Gc, 4, 2, 0), end + 1_000, end + 2_000_000, 40];
            self.blocks.append(tid, &gc, end + 2_000_000)?;
            return Ok(end + 2_000_000);
        }
        Ok(end)
    }

    /// The switch records and samples of a worker during one request.
    fn observe(&mut self, worker: u32, (begin, end): (u64, u64), waits: &[Wait]) {
        let tid = FIRST_TID + worker;
        for (out, back, ..) in waits {
            let cpu = Some((worker % 8) as u16);
            self.later(*back, &off_cpu::encode(tid, false, (*out, *back), cpu));
        }
        let mut pass = begin.next_multiple_of(PASS_NS);
        while pass < end {
            // Each pass samples half of the threads, and those in long waits.
            let chosen = (pass / PASS_NS + u64::from(worker)) % 2 == 0;
            if chosen || end - begin > 50 * MS {
                let inside = waits.iter().find(|w| w.0 <= pass && pass < w.1);
                self.sample(worker, pass, inside);
            }
            pass += PASS_NS;
        }
    }

    fn sample(&mut self, worker: u32, t_ns: u64, wait: Option<&Wait>) {
        let (kind, at, holder) = wait
            .map_or((WaitKind::Running, 0, 0), |(_, _, kind, at, holder)| (*kind, *at, *holder));
        let wall_ns = t_ns - self.sampled[worker as usize];
        self.sampled[worker as usize] = t_ns;
        let (source, call) = match kind {
            WaitKind::Futex => (HolderSource::OwnerField, 202),
            WaitKind::Sleep => (HolderSource::None, 230),
            WaitKind::SocketRead => (HolderSource::None, 45),
            _ => (HolderSource::None, 0),
        };
        let waited = wait.map_or(0, |(out, ..)| t_ns - out);
        let sample = Sample {
            t_ns,
            tid: FIRST_TID + worker,
            stack: self.known.stacks[at][worker as usize % 8],
            flags: flag::TIMES,
            gil_holder: 0,
            wall_ns,
            cpu_ns: wall_ns.saturating_sub(waited) / 2,
            run_delay_ns: 0,
            wait: kind,
            holder_source: source,
            call,
            lock_holder: if kind == WaitKind::Futex { holder } else { 0 },
            slices: 3,
            target: if kind == WaitKind::Futex { 0x7f00_1000 } else { 0 },
            timeout_ns: 0,
            task: 0,
            lock: if kind == WaitKind::Futex { 0x7f00_2000 } else { 0 },
        };
        self.later(t_ns, &sample.encode());
    }
}

/// Off the CPU from, until; why; which of the stacks; the lock's holder.
type Wait = (u64, u64, WaitKind, usize, u32);

fn meta(to_ns: u64) -> String {
    let settings = Object::new()
        .text("slow", "100ms")
        .int("period_ns", PASS_NS)
        .number("budget_percent", 1.0)
        .int("threads", 16)
        .flag("switches", true);
    let sources = Object::new()
        .text("native_stacks", "off: made by a tool")
        .text("running_stacks", "off: made by a tool")
        .text("stacks", "on")
        .text("switches", "on")
        .text("threads", "on")
        .text("vitals", "on")
        .text("wakers", "off: made by a tool");
    Object::new()
        .text("version", env!("CARGO_PKG_VERSION"))
        .text("service", "shop")
        .text("host", "made")
        .text("runtime", "Python 3.11.7")
        .raw("stdlib", &texts(["/usr/lib/python3.11"]))
        .raw("site", &texts(["/usr/lib/python3/site-packages"]))
        .int("cpus", 8)
        .raw("settings", &settings.finish())
        .raw("sources", &sources.finish())
        .text("reason", "made by a tool")
        .int("pid", 4999)
        .int("start_ns", START_NS)
        .int("start_epoch_ns", 1_764_000_000_000_000_000)
        .text("ids_seed", "00000000000051ed")
        .int("from_ns", START_NS)
        .int("to_ns", to_ns)
        .raw("losses", &Object::new().int("dropped_no_block", 0).finish())
        .finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use capture::read::Capture;

    #[test]
    fn a_large_capture_is_whole_and_the_same_each_time() {
        let (bytes, requests) = write(Vec::new(), 2).expect("written");
        assert_eq!(bytes, write(Vec::new(), 2).expect("written").0);
        assert!((2 << 20..3 << 20).contains(&bytes.len()), "{}", bytes.len());
        let capture = Capture::parse(&bytes).expect("read");
        assert_eq!(capture.damage, [] as [String; 0]);
        assert_eq!(capture.requests.len() as u64, requests);
        assert_eq!(capture.spans.len() as u64, 3 * requests);
        assert_eq!(capture.events.len() as u64, 4 * requests);
        let missing = capture.coverage.iter().map(|c| c.missing_before + c.missing_between);
        assert_eq!(missing.sum::<u64>(), 0);
    }
}
