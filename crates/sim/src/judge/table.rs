//! Many cases: run on several CPUs, counted, shown as a table.
//!
//! How it works: each seed is a case; its program and its healthy twin are run in both kernel
//! modes. The twin is judged by the program's own limit, and once more by a limit that its slowest
//! requests break, so that there is something to be wrong about.
//!
//! What it promises: the same seeds make the same table, however many threads count.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

use super::case::{false_alarms, judge, verdict, verdicts, Outcome};
use crate::program::defects::DEFECTS;
use crate::program::draw;

/// What was found about one seed in one kernel mode.
#[derive(Clone, Debug)]
pub struct Case {
    /// The sick program's.
    pub outcome: Outcome,
    /// Its twin was run, too.
    pub twin: bool,
    /// False alarms about its twin, by the program's limit.
    pub alarms: Vec<&'static str>,
    /// The same by a limit that some of its requests break.
    pub alarms_tight: Vec<&'static str>,
    /// What could not be written or read, or was read with damage.
    pub broken: Vec<String>,
    /// CPU time of the sampler, % of a core, in the sick program and in its twin.
    pub sampler_percent: (f64, Option<f64>),
}

/// The cases of one kernel mode.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// By seed.
    pub cases: Vec<Case>,
}

/// The modes: switch records on, and off.
pub const MODES: [(&str, bool); 2] = [("on", true), ("off", false)];

/// What of a seed is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Both modes, program and twin.
    Whole,
    /// Each round of all defects in one mode, the twins of one round in three: for a check that
    /// takes seconds.
    InTurn,
}

/// Runs one seed in one mode, with its twin or without.
pub fn case(seed: u64, switches: bool, with_twin: bool) -> Result<Case, String> {
    let program = draw::program(seed, true);
    let said = verdict(&program, switches, program.slow_ns)?;
    let mut broken = said.damage.clone();
    let outcome = judge(&program, &said);
    let (alarms, alarms_tight) = (Vec::new(), Vec::new());
    let sampler_percent = (said.sampler_percent, None);
    if !with_twin {
        return Ok(Case { outcome, twin: false, alarms, alarms_tight, broken, sampler_percent });
    }
    let twin = draw::program(seed, false);
    let [usual, tight] = verdicts(&twin, switches)?;
    broken.extend(usual.damage.clone());
    let (alarms, alarms_tight) = (false_alarms(&usual), false_alarms(&tight));
    let sampler_percent = (said.sampler_percent, Some(usual.sampler_percent));
    Ok(Case { outcome, twin: true, alarms, alarms_tight, broken, sampler_percent })
}

/// Runs these seeds on so many threads, both modes unless in turn; none is begun when `until` says
/// that it is time.
pub fn run(
    seeds: &[u64],
    threads: usize,
    scope: Scope,
    until: &(dyn Fn() -> bool + Sync),
) -> Result<[Table; 2], String> {
    let next = AtomicUsize::new(0);
    let done: Mutex<BTreeMap<u64, [Option<Case>; 2]>> = Mutex::default();
    let failed: Mutex<Option<String>> = Mutex::default();
    let work = || loop {
        // Each number is taken once; what is done with it is behind the locks.
        let index = next.fetch_add(1, Ordering::Relaxed);
        let Some(seed) = seeds.get(index).copied().filter(|_| !until()) else { break };
        match (both(seed, scope), done.lock(), failed.lock()) {
            (Ok(both), Ok(mut done), _) => drop(done.insert(seed, both)),
            (Err(error), _, Ok(mut failed)) => *failed = Some(format!("seed {seed}: {error}")),
            _ => break,
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(work);
        }
    });
    if let Some(error) = failed.into_inner().ok().flatten() {
        return Err(error);
    }
    let mut tables = [Table::default(), Table::default()];
    for (_, both) in done.into_inner().unwrap_or_default() {
        for (table, case) in tables.iter_mut().zip(both) {
            table.cases.extend(case);
        }
    }
    Ok(tables)
}

/// Whether `Scope::InTurn` judges this seed with switch records.
pub fn is_with_switches_in_turn(seed: u64) -> bool {
    (seed / DEFECTS.len() as u64) % 2 == 0
}

fn both(seed: u64, scope: Scope) -> Result<[Option<Case>; 2], String> {
    let with_twin = (seed / DEFECTS.len() as u64) % 3 == 0;
    Ok(match scope {
        Scope::Whole => [Some(case(seed, true, true)?), Some(case(seed, false, true)?)],
        Scope::InTurn if is_with_switches_in_turn(seed) => {
            [Some(case(seed, true, with_twin)?), None]
        }
        Scope::InTurn => [None, Some(case(seed, false, with_twin)?)],
    })
}

/// So many of so many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// That fit.
    pub of: usize,
    /// All.
    pub all: usize,
}

impl Part {
    fn add(&mut self, fits: bool) {
        self.of += usize::from(fits);
        self.all += 1;
    }

    /// Percent; 100 of none.
    pub fn percent(self) -> f64 {
        match self.all {
            0 => 100.0,
            all => self.of as f64 * 100.0 / all as f64,
        }
    }

    fn text(self) -> String {
        format!("{}/{} ({:.1} %)", self.of, self.all, self.percent())
    }
}

impl Table {
    /// Valid cases.
    pub fn judged(&self) -> impl Iterator<Item = &Outcome> {
        self.cases.iter().map(|case| &case.outcome).filter(|outcome| outcome.valid)
    }

    fn part(&self, fits: impl Fn(&Outcome) -> Option<bool>) -> Part {
        let mut part = Part::default();
        self.judged().filter_map(fits).for_each(|fits| part.add(fits));
        part
    }

    /// How often the cause was right.
    pub fn cause(&self) -> Part {
        self.part(|outcome| Some(outcome.cause))
    }

    /// How often the place was.
    pub fn place(&self) -> Part {
        self.part(|outcome| outcome.place)
    }

    /// How often the culprit was.
    pub fn culprit(&self) -> Part {
        self.part(|outcome| outcome.culprit)
    }

    /// How many twins were not blamed; `tight`: by a limit that they break.
    pub fn twins(&self, tight: bool) -> Part {
        let mut part = Part::default();
        for case in self.cases.iter().filter(|case| case.twin) {
            let alarms = if tight { &case.alarms_tight } else { &case.alarms };
            part.add(alarms.is_empty());
        }
        part
    }

    /// How often each confidence was right.
    pub fn calibration(&self) -> BTreeMap<&'static str, Part> {
        let mut parts: BTreeMap<&'static str, Part> = BTreeMap::new();
        for (confidence, _, right) in self.judged().flat_map(|outcome| &outcome.sure) {
            parts.entry(confidence).or_default().add(*right);
        }
        parts
    }

    /// CPU time of the sampler, % of a core: the mean of sick programs, and of their twins.
    pub fn sampler_percent(&self) -> [f64; 2] {
        let mean = |all: Vec<f64>| all.iter().sum::<f64>() / all.len().max(1) as f64;
        let of = |case: &Case| case.sampler_percent;
        let twins = self.cases.iter().filter_map(|case| of(case).1).collect();
        [mean(self.cases.iter().map(|case| of(case).0).collect()), mean(twins)]
    }

    /// Seeds with something wrong, by what: the rarest kinds last.
    pub fn failures(&self) -> Vec<(String, Vec<u64>)> {
        let mut by_kind: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for outcome in self.judged().filter(|outcome| !outcome.is_right()) {
            let what = match (outcome.cause, outcome.place) {
                (false, _) => format!("{}: found {}", outcome.defect, outcome.found),
                (true, Some(false)) => format!("{}: wrong place", outcome.defect),
                _ => format!("{}: wrong culprit", outcome.defect),
            };
            by_kind.entry(what).or_default().push(outcome.seed);
        }
        commonest_first(by_kind)
    }

    /// Seeds with a finding, first or not, that is wrong, by its confidence and cause.
    pub fn wrong_findings(&self) -> Vec<(String, Vec<u64>)> {
        let mut by_kind: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for outcome in self.judged() {
            for (confidence, cause, _) in outcome.sure.iter().filter(|(_, _, right)| !right) {
                let what = format!("{}: {cause} is {confidence}, and wrong", outcome.defect);
                by_kind.entry(what).or_default().push(outcome.seed);
            }
        }
        commonest_first(by_kind)
    }

    /// Seeds whose defect, or one of two, is in no finding.
    pub fn missed(&self) -> Vec<(String, Vec<u64>)> {
        let mut by_kind: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for outcome in self.judged() {
            for cause in &outcome.missed {
                let what = format!("{}: {cause} is not found", outcome.defect);
                by_kind.entry(what).or_default().push(outcome.seed);
            }
        }
        commonest_first(by_kind)
    }

    /// The table as text.
    pub fn text(&self, mode: &str) -> String {
        let mut out = String::new();
        let valid = self.judged().count();
        let _ =
            writeln!(out, "switch records {mode}: {valid} of {} cases judged", self.cases.len());
        for (what, part) in [
            ("cause right", self.cause()),
            ("place right", self.place()),
            ("culprit right", self.culprit()),
            ("twins not blamed", self.twins(false)),
            ("twins not blamed, tight limit", self.twins(true)),
        ] {
            let _ = writeln!(out, "  {what:<30} {}", part.text());
        }
        for (confidence, part) in self.calibration() {
            let _ = writeln!(out, "  {confidence:<10} was right       {}", part.text());
        }
        let [sick, twins] = self.sampler_percent();
        let _ = writeln!(out, "  sampler, % of a core           {sick:.2}, of twins {twins:.2}");
        out.push_str(&self.confusion());
        out.push_str(&self.alarms());
        out
    }

    /// What twins were blamed for, with seeds; and defects that the truth did not have.
    fn alarms(&self) -> String {
        let mut kinds: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for case in &self.cases {
            let seed = case.outcome.seed;
            for cause in &case.alarms {
                kinds.entry(format!("twin blamed for {cause}")).or_default().push(seed);
            }
            for cause in &case.alarms_tight {
                kinds.entry(format!("tight limit: {cause}")).or_default().push(seed);
            }
            if !case.outcome.valid {
                let what = format!("not judged: {}", case.outcome.defect);
                kinds.entry(what).or_default().push(seed);
            }
        }
        let mut out = String::new();
        for (what, seeds) in kinds {
            let some: Vec<String> = seeds.iter().take(4).map(u64::to_string).collect();
            let _ = writeln!(out, "  {:>4} x {what}; seeds {}", seeds.len(), some.join(", "));
        }
        out
    }

    /// By cause: how many cases, how many right, what was found instead.
    fn confusion(&self) -> String {
        let mut rows: BTreeMap<&str, (Part, BTreeMap<&str, usize>)> = BTreeMap::new();
        for outcome in self.judged() {
            let (part, others) = rows.entry(&outcome.wanted).or_default();
            part.add(outcome.cause);
            if !outcome.cause {
                *others.entry(&outcome.found).or_default() += 1;
            }
        }
        let mut out = String::new();
        for (cause, (part, others)) in rows {
            let mut others: Vec<(&str, usize)> = others.into_iter().collect();
            others.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
            let shown: Vec<String> =
                others.iter().map(|(cause, count)| format!("{cause} {count}")).collect();
            let _ = writeln!(out, "  {cause:<20} {:<18} {}", part.text(), shown.join(", "));
        }
        out
    }
}

fn commonest_first(by_kind: BTreeMap<String, Vec<u64>>) -> Vec<(String, Vec<u64>)> {
    let mut kinds: Vec<(String, Vec<u64>)> = by_kind.into_iter().collect();
    kinds.sort_by_key(|(_, seeds)| std::cmp::Reverse(seeds.len()));
    kinds
}
