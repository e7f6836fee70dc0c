//! One recorded process, seen from outside again and again.
//!
//! How it works: of the box, blocks are read that were written in the last `WINDOW_NS` (at first
//! the last minute, for requests that run longer). Requests that have not ended are remembered
//! until they do. What threads do is their newest sample in the box; how much CPU they use is the
//! growth of their clocks in /proc.
//!
//! What it promises: bounded: `BLOCKS_MAX` blocks a reading. A process that overwrites more than
//! that in the window is shown for as long as they reach. Missing on purpose: names of native
//! code, which need its binaries.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::path::PathBuf;
use std::time::Duration;

use analysis::frames::Frames;
use capture::read::{Capture, Wanted};
use capture::region::BlackBox;
use serde_json::{json, Value};

use crate::output::columns::{now_ns as epoch_ns, plain};
use crate::processes::live;
use crate::processes::named::Named;
use crate::read::default_rules;
use crate::show::percentile;

/// Requests that ended in this time are shown.
pub const WINDOW_NS: u64 = 10_000_000_000;
/// What the first reading covers.
const FIRST_NS: u64 = 60_000_000_000;
/// Blocks of 8 KiB that are read: 32 MiB.
const BLOCKS_MAX: usize = 4096;
/// A sample this old does not say what a thread does now.
const NOW_NS: u64 = 3_000_000_000;
/// For the answer to `ps`.
const PATIENCE: Duration = Duration::from_secs(1);
/// Ticks of a second in /proc, on every platform that is supported.
const TICKS: f64 = 100.0;

/// A process, and what is remembered of it.
pub struct Watched {
    pid: u32,
    socket: PathBuf,
    file: File,
    /// Requests that have not ended, by id.
    open: HashMap<u64, Open>,
    /// CPU time of threads at the last reading, ticks; and when that was.
    cpu: HashMap<u32, u64>,
    refreshed_ns: u64,
    ended: bool,
}

/// A request that runs.
#[derive(Clone)]
pub struct Open {
    /// Its name.
    pub name: String,
    /// Its begin.
    pub begin_ns: u64,
    /// Its thread.
    pub tid: u32,
    /// Other requests of its thread do not end it.
    on_loop: bool,
}

/// What was seen at a moment.
pub struct Seen {
    /// The answer to `ps`.
    pub ps: Value,
    /// The process.
    pub pid: u32,
    /// CLOCK_MONOTONIC.
    pub now_ns: u64,
    /// Time that the requests are of.
    pub window_ns: u64,
    /// The most frequent first.
    pub names: Vec<NameSeen>,
    /// The oldest first.
    pub open: Vec<Open>,
    /// The busiest first.
    pub threads: Vec<ThreadSeen>,
    /// The thread that had the GIL most often, and its part of the samples.
    pub gil: Option<(String, f64)>,
}

/// Requests of a name in the window.
pub struct NameSeen {
    /// The name.
    pub name: String,
    /// Times in ms, sorted.
    pub times: Vec<(f64, u64)>,
    /// How many were over their limit.
    pub slow: u64,
}

/// A thread.
pub struct ThreadSeen {
    /// Its number.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// R, S, D, as /proc has it.
    pub state: char,
    /// Since the last reading; None at the first.
    pub cpu_percent: Option<f64>,
    /// Where it was in its newest sample.
    pub place: Option<String>,
    /// What it waited for there.
    pub wait: &'static str,
    /// It is dashcam's own.
    pub is_own: bool,
}

impl Watched {
    /// Finds its box.
    pub fn open(named: &Named) -> Result<Watched, String> {
        let pid = named.pid;
        let socket = named.socket.clone()?;
        let ps = live::answer_of(&socket, "ps", PATIENCE)?;
        if ps["pid"] != pid || !named.is_here {
            return Err("its threads have other numbers in its container: ask there".to_owned());
        }
        let path = ps["box"].as_str().unwrap_or_default();
        if path.is_empty() {
            return Err("its black box is not in a file; `dashcam status` says why".to_owned());
        }
        let file = File::open(path).map_err(|error| format!("{path}: {error}"))?;
        let (open, cpu) = Default::default();
        Ok(Watched { pid, socket, file, open, cpu, refreshed_ns: 0, ended: false })
    }

    /// Whether it runs.
    pub fn is_alive(&self) -> bool {
        !self.ended
    }

    /// What it does now; None: it has ended, or did not answer.
    pub fn refresh(&mut self) -> Option<Seen> {
        let Ok(ps) = live::answer_of(&self.socket, "ps", PATIENCE) else {
            self.ended = !PathBuf::from(format!("/proc/{}", self.pid)).exists();
            return None;
        };
        let now_ns = sys::clock::now_ns();
        let back_ns = if self.refreshed_ns == 0 { FIRST_NS } else { WINDOW_NS };
        let region = BlackBox::since(&self.file, now_ns.saturating_sub(back_ns), BLOCKS_MAX);
        let mut bytes = Vec::new();
        let written = region.ok().and_then(|region| region.write_capture(&mut bytes).ok());
        let capture = written.and_then(|_| Capture::parse_for(&bytes, Wanted::Causes).ok())?;
        self.remember(&capture);
        let threads = self.threads(&capture, now_ns);
        let begun_ns = capture.meta.start_ns.max(now_ns.saturating_sub(WINDOW_NS));
        let mut open: Vec<Open> = self.open.values().cloned().collect();
        open.sort_by_key(|open| open.begin_ns);
        self.refreshed_ns = now_ns;
        Some(Seen {
            pid: self.pid,
            now_ns,
            window_ns: now_ns.saturating_sub(begun_ns),
            names: names(&capture, begun_ns),
            gil: gil(&capture, begun_ns),
            open,
            threads,
            ps,
        })
    }

    fn remember(&mut self, capture: &Capture) {
        let mut last: HashMap<u32, u64> = HashMap::new();
        for row in capture.requests.iter().filter(|row| row.begin_ns != 0) {
            if row.end_ns.is_some() {
                self.open.remove(&row.id);
            } else {
                let (name, tid) = (plain(capture.name(row.name)), row.tid);
                let open = Open { name, begin_ns: row.begin_ns, tid, on_loop: row.on_loop };
                self.open.insert(row.id, open);
            }
            if !row.on_loop {
                let last = last.entry(row.tid).or_default();
                *last = row.begin_ns.max(*last);
            }
        }
        // Its end was lost, if its thread has begun another one, or is no more.
        let task = |tid: u32| PathBuf::from(format!("/proc/{}/task/{tid}", self.pid));
        self.open.retain(|_, open| {
            let followed = last.get(&open.tid).is_some_and(|last| *last > open.begin_ns);
            open.on_loop || (!followed && task(open.tid).exists())
        });
    }

    fn threads(&mut self, capture: &Capture, now_ns: u64) -> Vec<ThreadSeen> {
        let frames = Frames::new(capture);
        let folder = format!("/proc/{}/task", self.pid);
        let (mut found, mut cpu) = (Vec::new(), HashMap::new());
        let passed_s = now_ns.saturating_sub(self.refreshed_ns) as f64 / 1e9;
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Some(tid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let text = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let Some((comm, state, ticks)) = stat(&text) else { continue };
            cpu.insert(tid, ticks);
            let before = self.cpu.get(&tid).filter(|_| self.refreshed_ns > 0);
            let percent = |before: &u64| {
                (ticks.saturating_sub(*before)) as f64 / TICKS / passed_s.max(0.001) * 100.0
            };
            let sample = capture.samples.get(&tid).and_then(|samples| samples.last());
            let sample = sample.filter(|s| s.t_ns + NOW_NS >= now_ns);
            let place = sample.and_then(|sample| frames.innermost(sample.stack));
            let place = place.filter(|place| !place.is_an_address());
            found.push(ThreadSeen {
                tid,
                name: plain(capture.thread_name(tid).unwrap_or(comm)),
                state,
                cpu_percent: before.map(percent),
                place: place.map(|place| plain(&place.short())),
                wait: sample.map_or("", |sample| sample.wait.text()),
                is_own: comm.starts_with("dashcam-"),
            });
        }
        self.cpu = cpu;
        let busy = |t: &ThreadSeen| t.cpu_percent.unwrap_or(0.0);
        found.sort_by(|a, b| busy(b).total_cmp(&busy(a)).then(a.tid.cmp(&b.tid)));
        found
    }
}

/// Name, state, and CPU time in ticks of a stat file.
fn stat(text: &str) -> Option<(&str, char, u64)> {
    // The name is in parentheses and may have any character.
    let (head, rest) = text.rsplit_once(')')?;
    let comm = head.split_once('(')?.1;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<u64>().ok());
    Some((comm, fields.first()?.chars().next()?, ticks(11)? + ticks(12)?))
}

fn names(capture: &Capture, since_ns: u64) -> Vec<NameSeen> {
    let rules = default_rules(capture);
    let mut by_name: BTreeMap<&str, Vec<(f64, u64)>> = BTreeMap::new();
    let ended = |end_ns: &u64| *end_ns >= since_ns;
    for row in capture.requests.iter().filter(|row| row.begin_ns != 0) {
        let Some(end_ns) = row.end_ns.filter(ended) else { continue };
        let ms = end_ns.saturating_sub(row.begin_ns) as f64 / 1e6;
        by_name.entry(capture.name(row.name)).or_default().push((ms, row.times.into()));
    }
    let seen = by_name.into_iter().map(|(name, mut times)| {
        times.sort_by(|a, b| a.0.total_cmp(&b.0));
        let limit_ms = rules.limit_ns(name) as f64 / 1e6;
        let slow = times.iter().filter(|(ms, _)| *ms >= limit_ms).map(|(_, n)| n).sum();
        NameSeen { name: plain(name), times, slow }
    });
    let mut seen: Vec<NameSeen> = seen.collect();
    seen.sort_by(|a, b| b.count().cmp(&a.count()).then(a.name.cmp(&b.name)));
    seen
}

fn gil(capture: &Capture, since_ns: u64) -> Option<(String, f64)> {
    let (mut all, mut by): (usize, BTreeMap<u32, usize>) = Default::default();
    for sample in capture.samples.values().flatten().filter(|s| s.t_ns >= since_ns) {
        all += 1;
        if sample.gil_holder != 0 {
            *by.entry(sample.gil_holder).or_default() += 1;
        }
    }
    let (tid, count) = by.into_iter().max_by_key(|(_, count)| *count)?;
    let name = capture.thread_name(tid).map_or_else(|| tid.to_string(), plain);
    Some((name, count as f64 / all as f64))
}

impl NameSeen {
    /// How many ended.
    pub fn count(&self) -> u64 {
        self.times.iter().map(|(_, n)| n).sum()
    }

    /// The time in ms that this share of them does not exceed.
    pub fn quantile(&self, share: f64) -> f64 {
        percentile(&self.times, share)
    }
}

impl Seen {
    /// CPU of the program's threads, and of dashcam's, in percent of a core.
    pub fn cpu_percent(&self) -> Option<(f64, f64)> {
        let of = |own: bool| {
            let threads = self.threads.iter().filter(|thread| thread.is_own == own);
            threads.map(|thread| thread.cpu_percent).sum::<Option<f64>>()
        };
        Some((of(false)?, of(true)?))
    }

    /// One object.
    pub fn to_json(&self) -> Value {
        let seconds = self.window_ns as f64 / 1e9;
        let round = |x: f64| (x * 1000.0).round() / 1000.0;
        let names = self.names.iter().map(|name| {
            json!({"name": name.name, "count": name.count(), "slow": name.slow,
                "rate": round(name.count() as f64 / seconds.max(0.001)),
                "p50_ms": round(name.quantile(0.5)), "p95_ms": round(name.quantile(0.95)),
                "max_ms": round(name.quantile(1.0))})
        });
        let open = self.open.iter().map(|open| {
            let age_ms = self.now_ns.saturating_sub(open.begin_ns) as f64 / 1e6;
            json!({"name": open.name, "age_ms": round(age_ms), "tid": open.tid})
        });
        let threads = self.threads.iter().map(|thread| {
            json!({"tid": thread.tid, "name": thread.name, "state": thread.state.to_string(),
                "cpu_percent": thread.cpu_percent.map(round), "where": thread.place,
                "wait": thread.wait, "own": thread.is_own})
        });
        let cpu = self.cpu_percent();
        json!({
            "schema": 1,
            "epoch_ns": epoch_ns(),
            "pid": self.pid,
            "service": self.ps["service"],
            "on": self.ps["on"],
            "window_s": round(seconds),
            "requests": names.collect::<Vec<Value>>(),
            "open": open.collect::<Vec<Value>>(),
            "threads": threads.collect::<Vec<Value>>(),
            "cpu_percent": cpu.map(|(cpu, _)| round(cpu)),
            "own_cpu_percent": cpu.map(|(_, own)| round(own)),
            "gil": self.gil.as_ref().map(|(name, part)| json!({"holder": name, "part": round(*part)})),
            "requests_total": self.ps["requests"],
            "slow_total": self.ps["slow"],
            "captures": self.ps["captures"],
            "verdict": self.ps["verdict"],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_of_any_name_has_its_state_and_cpu_time() {
        let line = "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 100 23 0 0 20";
        assert_eq!(stat(line), Some(("a) b (c", 'S', 123)));
        assert_eq!(stat("7 (a) S 1"), None);
        assert_eq!(stat(""), None);
    }
}
