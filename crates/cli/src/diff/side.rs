//! One side of a comparison: what its captures say of requests and causes, summed up.
//!
//! How it works: captures are judged one after the other, the newest first, and only sums are kept
//! of each, so memory is that of `why` for the largest of them. Captures of one process overlap: a
//! request counts in the first of them that has it. A cause's excess is its share of what the
//! capture's own requests took beyond typical.
//!
//! What it promises: both sides are judged by the same rules: those given, else those of the newest
//! capture that is read first. No request is on both sides. A capture that cannot be read is
//! reported and counted. Missing on purpose: rates by time. Captures are made because requests are
//! slow, so the time between them is not known; `fleet diff` has rates.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use analysis::requests::{Judged, Requests};
use analysis::thresholds;
use capture::read::{Capture, Meta};
use diagnosis::{Cause, Confidence, Diagnosis, Finding, Place};
use trigger::Rules;

use super::times::Times;
use crate::output::columns::plain;
use crate::output::exit_code::UNREADABLE;
use crate::output::progress;
use crate::read::{captures_in, default_rules, no_capture_in, open_judged, parsed};

/// A verdict has at most so many findings; one below the last of them is not listed.
const FINDINGS_MAX: usize = 5;

const SECOND_NS: u64 = 1_000_000_000;

/// What the captures of one side say.
#[derive(Default)]
pub struct Side {
    /// As the command line names it.
    pub path: String,
    /// The captures that were judged, the newest first.
    pub files: Vec<PathBuf>,
    /// Captures that could not be read.
    pub unread: usize,
    /// Captures of other services, left out.
    pub elsewhere: usize,
    /// Services of the captures.
    pub services: BTreeSet<String>,
    /// Rules that its captures were recorded with, where they are not those they are judged by.
    pub other_rules: BTreeSet<String>,
    /// Sources that were on in each capture, and those that were off in one.
    pub sources: BTreeMap<String, bool>,
    /// Time that the captures cover, Unix epoch ns.
    pub covers_ns: Option<(u64, u64)>,
    /// Requests that were read before, in the other side or in another capture.
    pub read_before: u64,
    /// Requests by name.
    pub names: BTreeMap<String, Name>,
    /// Causes by fingerprint.
    pub causes: BTreeMap<String, Found>,
    /// What its slow requests took beyond typical, ns.
    pub excess_ns: f64,
    /// The most of it that a cause can have without being listed, ns.
    pub unlisted_ns: f64,
}

/// The requests of one name.
#[derive(Clone, Debug, Default)]
pub struct Name {
    /// Of all of them.
    pub times: Times,
    /// Of those within their limit.
    pub normal: Times,
    /// The median of these in each second that has some. Requests of one second share what delays
    /// them: they are one observation.
    pub by_second: Times,
    /// Past their limit.
    pub slow: u64,
    /// Episodes of slow ones.
    pub episodes: u64,
}

/// A cause, summed up over captures.
#[derive(Clone, Debug)]
pub struct Found {
    /// The cause.
    pub cause: Cause,
    /// Where, in the newest capture that has it.
    pub place: Option<Place>,
    /// The place to blame, if it is another.
    pub culprit: Option<Place>,
    /// Name of the request that went that way.
    pub request: String,
    /// One sentence.
    pub summary: String,
    /// The highest of the captures.
    pub confidence: Confidence,
    /// Its part of the excess, ns.
    pub excess_ns: f64,
    /// Slow requests that have it.
    pub slow: u64,
    /// Episodes of these.
    pub episodes: u64,
    /// How long the slow requests of these took.
    pub lasted: Times,
    /// Captures that have it.
    pub captures: usize,
}

impl Side {
    /// Requests that were judged.
    pub fn requests(&self) -> u64 {
        self.names.values().map(|name| name.times.count()).sum()
    }

    /// Those past their limit.
    pub fn slow(&self) -> u64 {
        self.names.values().map(|name| name.slow).sum()
    }

    /// Counts requests. Returns the slow ones that count in this capture.
    fn take_requests(&mut self, capture: &Capture, rules: &Rules, seen: &mut Seen) -> OwnSlow {
        let meta = &capture.meta;
        let span_ns = (meta.epoch_ns(meta.from_ns), meta.epoch_ns(meta.to_ns));
        let (from_ns, to_ns) = self.covers_ns.unwrap_or(span_ns);
        self.covers_ns = Some((from_ns.min(span_ns.0), to_ns.max(span_ns.1)));
        self.services.insert(plain(&meta.service));
        for (name, _) in &meta.sources {
            *self.sources.entry(name.clone()).or_insert(true) &= meta.source_on(name);
        }
        let requests = Requests::divide(capture, |name| rules.limit_ns(name));
        let mut own = OwnSlow::default();
        let mut by_name: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
        for request in &requests.slow {
            own.all_ns += requests.excess_ns_of(request) as f64;
            if !seen.is_first(meta, request, true) {
                self.read_before += u64::from(request.row.times);
                continue;
            }
            own.ns += requests.excess_ns_of(request) as f64;
            own.ends_ns.insert(request.row.begin_ns, request.end_ns);
            let name = capture.name(request.row.name);
            let sum = self.names.entry(plain(name)).or_default();
            sum.times.add(request.ns(), request.row.times.into());
            sum.slow += u64::from(request.row.times);
            by_name.entry(name).or_default().push((request.row.begin_ns, request.end_ns));
        }
        for (name, intervals) in by_name {
            self.names.entry(plain(name)).or_default().episodes += episodes(intervals).len() as u64;
        }
        let mut seconds: BTreeMap<(u32, u64), Vec<u64>> = BTreeMap::new();
        for request in &requests.normal {
            if !seen.is_first(meta, request, false) {
                self.read_before += u64::from(request.row.times);
                continue;
            }
            let sum = self.names.entry(plain(capture.name(request.row.name))).or_default();
            sum.times.add(request.ns(), request.row.times.into());
            sum.normal.add(request.ns(), request.row.times.into());
            let second = request.row.begin_ns / SECOND_NS;
            seconds.entry((request.row.name, second)).or_default().push(request.ns());
        }
        for ((name, _), mut times) in seconds {
            let middle = times.len() / 2;
            let (_, median_ns, _) = times.select_nth_unstable(middle);
            let sum = self.names.entry(plain(capture.name(name))).or_default();
            sum.by_second.add(*median_ns, 1);
        }
        seen.covered(meta);
        own
    }

    fn take_findings(&mut self, diagnosis: &Diagnosis<'_>, own: &OwnSlow) {
        // Of a capture that another one overlaps, what its own requests took.
        let excess_ns = diagnosis.excess_ns as f64 * own.ns / own.all_ns.max(1.0);
        self.excess_ns += excess_ns;
        let findings = &diagnosis.findings;
        let last = findings.last().filter(|_| findings.len() >= FINDINGS_MAX);
        let unlisted = last.map_or(0.0, |f| f.share).max(thresholds::reported_part());
        self.unlisted_ns += excess_ns * unlisted;
        for finding in findings {
            let intervals = own.with(finding);
            if intervals.is_empty() {
                continue;
            }
            // Findings rest on the slowest; what they share holds of all.
            let scale = diagnosis.slow as f64 / diagnosis.examined.0.max(1) as f64;
            let scaled = |n: u64| (n as f64 * scale.max(1.0)).round() as u64;
            let slow = scaled(intervals.len() as u64);
            let episodes = episodes(intervals);
            let found =
                self.causes.entry(finding.fingerprint.clone()).or_insert_with(|| of(finding));
            found.excess_ns += finding.share * excess_ns;
            found.slow += slow;
            found.episodes += scaled(episodes.len() as u64);
            episodes.iter().for_each(|(begin_ns, end_ns)| found.lasted.add(end_ns - begin_ns, 1));
            found.captures += 1;
            found.confidence = found.confidence.max(finding.confidence);
        }
    }
}

/// Without sums: these are added.
fn of(finding: &Finding) -> Found {
    Found {
        cause: finding.cause,
        place: finding.place.clone(),
        culprit: finding.culprit.clone(),
        request: finding.request.clone(),
        summary: finding.summary.clone(),
        confidence: finding.confidence,
        excess_ns: 0.0,
        slow: 0,
        episodes: 0,
        lasted: Times::default(),
        captures: 0,
    }
}

/// The slow requests of a capture that count in it.
#[derive(Default)]
struct OwnSlow {
    /// End by begin.
    ends_ns: HashMap<u64, u64>,
    /// What they took beyond typical.
    ns: f64,
    /// The same of all slow requests of the capture.
    all_ns: f64,
}

impl OwnSlow {
    /// Those that have a finding.
    fn with(&self, finding: &Finding) -> Vec<(u64, u64)> {
        let end = |begin: &u64| Some((*begin, *self.ends_ns.get(begin)?));
        finding.seen_ns.iter().filter_map(end).collect()
    }
}

/// The episodes: as many of the requests as there are that do not overlap each other. Slow requests
/// come in bursts, since what blocks one blocks the others, and a burst is one observation; one
/// that lasted through several bursts does not make them one.
fn episodes(mut intervals: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    intervals.sort_unstable_by_key(|(begin_ns, end_ns)| (*end_ns, *begin_ns));
    let mut apart: Vec<(u64, u64)> = Vec::new();
    for (begin_ns, end_ns) in intervals {
        if apart.last().is_none_or(|(_, until_ns)| begin_ns >= *until_ns) {
            apart.push((begin_ns, end_ns));
        }
    }
    apart
}

/// Which requests of which processes were counted already.
#[derive(Default)]
struct Seen {
    /// Times that captures of a process cover.
    covered_ns: HashMap<u64, Vec<(u64, u64)>>,
    /// Requests that are slow, or ended before these times.
    ids: HashSet<(u64, u64)>,
}

impl Seen {
    fn is_first(&mut self, meta: &Meta, request: &Judged<'_>, is_slow: bool) -> bool {
        // The seed is a random number of each recorder.
        let process = meta.ids_seed;
        let covered = self.covered_ns.get(&process);
        let is_in = |(from_ns, to_ns): &(u64, u64)| (*from_ns..=*to_ns).contains(&request.end_ns);
        let has_ended = request.row.end_ns.is_some();
        if has_ended && covered.is_some_and(|times| times.iter().any(is_in)) {
            return false;
        }
        // A slow one may run in one capture and have ended in another.
        let is_kept = is_slow || request.end_ns < meta.from_ns;
        !is_kept || self.ids.insert((process, request.row.id))
    }

    fn covered(&mut self, meta: &Meta) {
        self.covered_ns.entry(meta.ids_seed).or_default().push((meta.from_ns, meta.to_ns));
    }
}

/// Reads sides, all by the same rules.
#[derive(Default)]
pub struct Reader {
    rules: Option<Rules>,
    /// The rules, as text.
    pub slow: String,
    service: Option<String>,
    seen: Seen,
    files: HashSet<PathBuf>,
}

impl Reader {
    /// `slow`: the rules, instead of those of the first capture. Reports wrong ones on stderr.
    pub fn new(slow: Option<&str>) -> Result<Reader, ExitCode> {
        let rules = slow.map(parsed).transpose()?;
        Ok(Reader { rules, slow: slow.unwrap_or_default().to_owned(), ..Reader::default() })
    }

    /// The side of one capture that was judged already, by these rules.
    pub fn judged(&mut self, file: &Path, diagnosis: &Diagnosis<'_>, rules: &Rules) -> Side {
        let meta = &diagnosis.capture.meta;
        let mut side = Side { path: file.display().to_string(), ..Side::default() };
        self.is_new(file);
        self.service = Some(meta.service.clone());
        if self.slow.is_empty() {
            self.slow.clone_from(&meta.slow);
        }
        let own = side.take_requests(diagnosis.capture, rules, &mut self.seen);
        side.take_findings(diagnosis, &own);
        side.files.push(file.to_owned());
        self.rules = Some(rules.clone());
        side
    }

    /// Reads a capture, or all of a folder that are of the service that was read first; if none
    /// is, of its newest capture's service. What was read before is left out. Errors are reported
    /// on stderr.
    pub fn side(&mut self, path: &Path) -> Result<Side, ExitCode> {
        let files: Vec<PathBuf> =
            files(path)?.into_iter().filter(|file| self.is_new(file)).collect();
        let mut side = self.of_service(path, &files)?;
        if side.files.is_empty() && side.elsewhere > 0 {
            self.service = None;
            side = self.of_service(path, &files)?;
        }
        progress::clear();
        match side.files.is_empty() {
            false => Ok(side),
            true => Err(nothing_in(path, &side)),
        }
    }

    fn is_new(&mut self, file: &Path) -> bool {
        self.files.insert(file.canonicalize().unwrap_or_else(|_| file.to_owned()))
    }

    fn of_service(&mut self, path: &Path, files: &[PathBuf]) -> Result<Side, ExitCode> {
        let mut side = Side { path: path.display().to_string(), ..Side::default() };
        let is_folder = path.is_dir();
        for file in files {
            let (file, capture) = match open_judged(file, self.rules.as_ref()) {
                Ok(read) => read,
                Err(code) if !is_folder => return Err(code),
                Err(_) => {
                    side.unread += 1;
                    continue;
                }
            };
            let service = self.service.get_or_insert_with(|| capture.meta.service.clone());
            if is_folder && *service != capture.meta.service {
                side.elsewhere += 1;
                continue;
            }
            if self.slow.is_empty() {
                self.slow.clone_from(&capture.meta.slow);
            } else if self.slow != capture.meta.slow {
                side.other_rules.insert(plain(&capture.meta.slow));
            }
            let rules = self.rules.get_or_insert_with(|| default_rules(&capture));
            let own = side.take_requests(&capture, rules, &mut self.seen);
            if own.ns > 0.0 {
                progress::stage("looking for causes");
                let diagnosis = diagnosis::diagnose(&capture, |name| rules.limit_ns(name));
                side.take_findings(&diagnosis, &own);
            }
            side.files.push(file);
        }
        Ok(side)
    }
}

fn nothing_in(path: &Path, side: &Side) -> ExitCode {
    let path_text = path.display();
    match side.unread {
        0 if path.is_dir() && captures_in(path).is_empty() => {
            eprintln!("dashcam: {}", no_capture_in(path));
        }
        0 => eprintln!("dashcam: {path_text}: nothing but the capture that it is compared with"),
        _ => eprintln!("dashcam: {path_text}: none of its captures could be read"),
    }
    ExitCode::from(UNREADABLE)
}

/// Without requests nothing can be said: reports that.
pub fn comparable(sides: [&Side; 2]) -> Result<(), ExitCode> {
    for side in sides {
        if side.requests() == 0 {
            let why = match side.read_before {
                0 => "no requests in it",
                _ => "what it is compared with has all of its requests, too",
            };
            eprintln!("dashcam: {}: {why}, so there is nothing to compare", side.path);
            return Err(ExitCode::from(UNREADABLE));
        }
    }
    Ok(())
}

/// The newest first.
fn files(path: &Path) -> Result<Vec<PathBuf>, ExitCode> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    if let Err(error) = std::fs::read_dir(path) {
        eprintln!(
            "dashcam: {}: {error}; wanted a capture (FILE.dashcam), or a folder with captures",
            path.display()
        );
        return Err(ExitCode::from(UNREADABLE));
    }
    let mut found = captures_in(path);
    found.sort_unstable();
    Ok(found.into_iter().rev().map(|(_, _, file)| file).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_overlap_are_one_episode() {
        assert_eq!(episodes(vec![(10, 110), (0, 100), (99, 300)]), [(0, 100)]);
        let apart = episodes(vec![(0, 900), (100, 200), (50, 400), (0, 100), (210, 300)]);
        assert_eq!(apart, [(0, 100), (100, 200), (210, 300)]);
        assert!(episodes(Vec::new()).is_empty());
    }
}
