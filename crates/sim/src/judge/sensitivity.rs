//! What depends on each threshold of the diagnosis: the verdicts that move when it is varied.
//!
//! How it works: golden and simulated captures are read once. Each threshold
//! (`analysis::thresholds`) is given a smaller and a larger value in turn, and all captures are
//! judged again. A verdict has moved if a finding's cause, place, culprit or confidence is another
//! one; it is worse if it was right and is not any more, better the other way round.
//!
//! What it promises: the same captures make the same table. What is missing on purpose: two
//! thresholds varied at once.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

use analysis::thresholds::varied::{scaled, vary};
use analysis::thresholds::{Threshold, ALL};
use analysis::unit::Unit;
use capture::read::{Capture, Wanted};
use golden::store::{self, Entry};

use super::case::{judge, Recorded};

/// Captures, and what is right about them.
pub struct Captures {
    golden: Vec<(Entry, Capture)>,
    simulated: Vec<Recorded>,
}

/// The part of a verdict that is compared, and whether it is right.
#[derive(Clone, Debug, PartialEq)]
struct Said {
    findings: String,
    right: bool,
}

/// How many verdicts moved, and the names of some.
#[derive(Clone, Debug, Default)]
pub struct Moved {
    /// All that moved.
    pub count: usize,
    /// Of these, how many were right and are wrong now.
    pub worse: usize,
    /// Of these, how many were wrong and are right now.
    pub better: usize,
    /// The first, by name or seed.
    pub first: Option<String>,
}

/// What one value of a threshold moves.
#[derive(Clone, Debug)]
pub struct Effect {
    /// The value.
    pub value: f64,
    /// Golden captures.
    pub golden: Moved,
    /// Simulated ones.
    pub simulated: Moved,
}

impl Captures {
    /// Reads the golden captures in `folder`, and runs `seeds` programs, switch records on and off
    /// in turn.
    pub fn read(folder: &Path, seeds: u64) -> Result<Captures, String> {
        let mut golden = Vec::new();
        for entry in store::entries(folder, "*")? {
            // One that cannot be read has no verdict.
            if let Ok(capture) = Capture::parse_for(&entry.capture()?, Wanted::Causes) {
                golden.push((entry, capture));
            }
        }
        let run = |seed: u64| Recorded::of(seed, seed % 2 == 0);
        let simulated = (1..=seeds).map(run).collect::<Result<Vec<_>, String>>()?;
        Ok(Captures { golden, simulated })
    }

    /// How many there are: golden, simulated.
    pub fn counts(&self) -> (usize, usize) {
        (self.golden.len(), self.simulated.len())
    }

    /// The effects of each threshold times each factor.
    pub fn effects(
        &self,
        factors: &[f64],
        threads: usize,
    ) -> Vec<(&'static Threshold, Vec<Effect>)> {
        vary(None);
        let as_it_is = self.said(threads);
        let effect = |index: usize, factor: f64| {
            let value = scaled(index, factor);
            vary(Some((index, value)));
            let now = self.said(threads);
            vary(None);
            let golden = moved(&as_it_is.0, &now.0, |i| self.golden[i].0.name.clone());
            let seed = |i: usize| self.simulated[i].program.seed.to_string();
            Effect { value, golden, simulated: moved(&as_it_is.1, &now.1, seed) }
        };
        let all = ALL.iter().enumerate();
        all.map(|(index, threshold)| {
            (threshold, factors.iter().map(|factor| effect(index, *factor)).collect())
        })
        .collect()
    }

    fn said(&self, threads: usize) -> (Vec<Said>, Vec<Said>) {
        let golden = in_parallel(threads, &self.golden, |(entry, capture)| {
            let verdict = golden::verdict::of(capture);
            let right = entry.answer.wrong(&verdict, entry.switches).is_none();
            Said { findings: format!("{:?}", verdict.findings), right }
        });
        let simulated = in_parallel(threads, &self.simulated, |recorded| {
            let verdict = recorded.verdict();
            let outcome = judge(&recorded.program, &verdict);
            let compared = verdict.findings.iter();
            let compared = compared.map(|f| (f.cause, f.confidence, &f.place, &f.culprit));
            let findings = format!("{:?}", compared.collect::<Vec<_>>());
            Said { findings, right: outcome.is_right() || !outcome.valid }
        });
        (golden, simulated)
    }
}

fn moved(was: &[Said], now: &[Said], name: impl Fn(usize) -> String) -> Moved {
    let mut found = Moved::default();
    for (index, (was, now)) in was.iter().zip(now).enumerate() {
        if was != now {
            found.count += 1;
            found.worse += usize::from(was.right && !now.right);
            found.better += usize::from(!was.right && now.right);
            found.first.get_or_insert_with(|| name(index));
        }
    }
    found
}

/// The answers of `work`, in the order of what it was asked about.
fn in_parallel<T: Sync, R: Send>(
    threads: usize,
    all: &[T],
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, R)>> = Mutex::default();
    let take = || loop {
        // Each number is taken once; what is done with it is behind the lock.
        let index = next.fetch_add(1, Ordering::Relaxed);
        let Some(one) = all.get(index) else { break };
        let answer = work(one);
        if let Ok(mut done) = done.lock() {
            done.push((index, answer));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(take);
        }
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, answer)| answer).collect()
}

/// The effects as a table of Markdown.
pub fn table(effects: &[(&'static Threshold, Vec<Effect>)]) -> String {
    let mut out = String::from(
        "| threshold | value | varied | golden moved | worse, better | simulated moved | worse, better | the first |\n\
         | --- | --: | --: | --: | --: | --: | --: | --- |\n",
    );
    for (threshold, effects) in effects {
        for effect in effects {
            let (golden, simulated) = (&effect.golden, &effect.simulated);
            let seed = simulated.first.as_ref().map(|seed| format!("seed {seed}"));
            let first: Vec<String> = golden.first.iter().cloned().chain(seed).collect();
            // A String takes everything.
            let _ = writeln!(
                out,
                "| `{}` | {} | {} | {} | {}, {} | {} | {}, {} | {} |",
                threshold.name,
                shown(threshold, threshold.value),
                shown(threshold, effect.value),
                golden.count,
                golden.worse,
                golden.better,
                simulated.count,
                simulated.worse,
                simulated.better,
                first.join(", ")
            );
        }
    }
    out
}

/// `60 ms`, `0.25`, `3`.
fn shown(threshold: &Threshold, value: f64) -> String {
    let rounded = |value: f64| {
        let text = format!("{value:.4}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match threshold.unit {
        Unit::Ns => format!("{} ms", rounded(value / 1e6)),
        Unit::Us => format!("{} us", rounded(value)),
        _ => rounded(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_moves_by_its_findings_and_is_worse_where_it_was_right() {
        let said = |findings: &str, right| Said { findings: findings.to_owned(), right };
        let was = [said("a", true), said("b", false), said("c", true), said("d", true)];
        let now = [said("a", true), said("x", true), said("y", false), said("z", true)];
        let found = moved(&was, &now, |index| index.to_string());
        assert_eq!((found.count, found.worse, found.better), (3, 1, 1));
        assert_eq!(found.first.as_deref(), Some("1"));
    }

    #[test]
    fn a_varied_threshold_has_its_value_again() {
        let index = ALL.iter().position(|t| t.name == "repeated").unwrap();
        assert_eq!((scaled(index, 0.8), scaled(index, 1.2)), (2.0, 4.0));
        let own = analysis::thresholds::repeated();
        vary(Some((index, 4.0)));
        assert_eq!(analysis::thresholds::repeated(), own + 1);
        vary(None);
        assert_eq!(analysis::thresholds::repeated(), own);
    }
}
