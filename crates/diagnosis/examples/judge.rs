//! For the zoo: what two simple rules would have said of a capture, and whether its verdict is the
//! same when names change or records are lost.
//!
//! `judge CAPTURE SLOW_MS [SEEDS]` prints JSON: `leaf`: the places most samples of the slow
//! requests' threads were in, most first; `off_cpu`: the places most time off the CPU of the whole
//! process was spent in; `renamed`, `thinned`: in which of the altered captures the verdict was
//! another, and how; `needed`: the lost records without which alone it is another, none if it took
//! several.

#[path = "../tests/it/changed/mod.rs"]
mod changed;

use std::collections::{BTreeMap, HashMap};
use std::process::ExitCode;

use analysis::frames::Frames;
use analysis::timeline::{of_thread, State};
use capture::read::Capture;
use diagnosis::{diagnose, Place};
use serde_json::{json, Value};

/// One record in so many is lost.
const ONE_IN: u64 = 100;
/// Places in a report.
const MOST: usize = 3;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let parsed = match words.as_slice() {
        [path, slow, seeds @ ..] => slow.parse().ok().and_then(|slow: f64| {
            let seeds = seeds.first().map_or(Some(0), |s| s.parse().ok())?;
            Some((path, (slow * 1e6) as u64, seeds))
        }),
        _ => None,
    };
    let Some((path, slow_ns, seeds)) = parsed else {
        eprintln!("judge: wanted CAPTURE SLOW_MS [SEEDS], found {words:?}");
        return ExitCode::from(2);
    };
    let read = std::fs::read(path).map_err(|e| e.to_string());
    let judged = read.and_then(|bytes| judge(&bytes, slow_ns, seeds).map_err(|e| e.to_string()));
    match judged {
        Ok(answer) => {
            println!("{answer}");
            ExitCode::SUCCESS
        }
        Err(wrong) => {
            eprintln!("judge: {path}: {wrong}");
            ExitCode::from(3)
        }
    }
}

fn judge(bytes: &[u8], slow_ns: u64, seeds: u64) -> Result<Value, capture::read::ReadError> {
    let capture = Capture::parse(bytes)?;
    let original = verdict(&capture, slow_ns, &HashMap::new());
    let mut other = Capture::parse(bytes)?;
    let names = changed::rename(&mut other);
    let renamed = verdict(&other, slow_ns, &HashMap::new());
    let wanted = verdict(&capture, slow_ns, &names);
    let mut thinned = Vec::new();
    for seed in 0..seeds {
        let less = Capture::parse(&changed::thin(bytes, ONE_IN, seed))?;
        let now = verdict(&less, slow_ns, &HashMap::new());
        if now != original {
            let stands = |bytes: &[u8]| {
                let less = Capture::parse(bytes);
                less.is_ok_and(|less| verdict(&less, slow_ns, &HashMap::new()) == original)
            };
            let needed = changed::needed(bytes, ONE_IN, seed, stands);
            let needed: Vec<String> = needed.iter().map(|(_, words)| shown(words)).collect();
            thinned.push(json!({"seed": seed, "was": original, "is": now, "needed": needed}));
        }
    }
    let broken = (renamed != wanted).then(|| json!({"was": wanted, "is": renamed}));
    Ok(json!({
        "leaf": leaves(&capture, slow_ns),
        "off_cpu": off_cpu(&capture),
        "renamed": broken,
        "thinned": thinned,
        "seeds": seeds,
    }))
}

/// A record, for a person to read.
fn shown(words: &[u64]) -> String {
    format::record::decode(words)
        .map_or("no record".to_owned(), |(_, record)| format!("{record:?}"))
}

/// The first finding: cause, where, culprit; with names replaced.
fn verdict(capture: &Capture, slow_ns: u64, names: &HashMap<String, String>) -> Vec<String> {
    let diagnosis = diagnose(capture, |_| slow_ns);
    let Some(first) = diagnosis.findings.first() else { return Vec::new() };
    let new = |name: &str| names.get(name).map_or(name, String::as_str).to_owned();
    let place = |p: &Option<Place>| {
        p.as_ref().map_or("-".to_owned(), |p| format!("{} {}", new(&p.file), new(&p.qualified)))
    };
    vec![first.cause.text().to_owned(), place(&first.place), place(&first.culprit)]
}

/// Innermost own functions of the slow requests' threads, by samples.
fn leaves(capture: &Capture, slow_ns: u64) -> Vec<Value> {
    let frames = Frames::new(capture);
    let mut sums = BTreeMap::new();
    for row in &capture.requests {
        let end_ns = row.end_ns.unwrap_or(capture.meta.to_ns);
        if end_ns.saturating_sub(row.begin_ns) < slow_ns {
            continue;
        }
        let samples = capture.samples.get(&row.tid).map_or(&[][..], Vec::as_slice);
        for sample in samples.iter().filter(|s| (row.begin_ns..end_ns).contains(&s.t_ns)) {
            add(&mut sums, frames.innermost(sample.stack), 1);
        }
    }
    most(sums)
}

/// Innermost own functions in which the threads of the process were off the CPU, by time.
fn off_cpu(capture: &Capture) -> Vec<Value> {
    let frames = Frames::new(capture);
    let mut sums = BTreeMap::new();
    for tid in capture.samples.keys() {
        let meta = &capture.meta;
        for segment in of_thread(capture, *tid, meta.from_ns.max(meta.start_ns), meta.to_ns) {
            if matches!(segment.state, State::Wait | State::Ready) {
                add(&mut sums, frames.innermost(segment.stack()), segment.ns());
            }
        }
    }
    most(sums)
}

fn add(sums: &mut BTreeMap<(String, String), u64>, place: Option<Place>, weight: u64) {
    if let Some(place) = place {
        *sums.entry((place.function, place.file)).or_default() += weight;
    }
}

fn most(sums: BTreeMap<(String, String), u64>) -> Vec<Value> {
    let mut places: Vec<((String, String), u64)> = sums.into_iter().collect();
    places.sort_by_key(|(_, weight)| std::cmp::Reverse(*weight));
    places.truncate(MOST);
    places.into_iter().map(|((f, file), n)| json!({"function": f, "file": file, "n": n})).collect()
}
