//! A capture, and the queries of tables on it.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::OnceLock;

use analysis::requests::Requests;
use analysis::states::Threads;
use capture::read::{Capture, QuickMap, RequestRow};
use diagnosis::{diagnose, Finding};

use crate::cell::{id, Cell};
use crate::counts::{Counts, Of};
use crate::whole::{stacks_in_use, Whole};

/// The time a request of that name may take, ns; u64::MAX: any.
pub type Limit = Box<dyn Fn(&str) -> u64 + Send + Sync>;

/// What `dashcam why` says of a capture.
pub struct Verdict {
    /// Its findings, largest share first.
    pub findings: Vec<Finding>,
    /// As `dashcam why --json` prints it.
    pub json: String,
    /// As `dashcam why` prints it in a pipe.
    pub text: String,
    /// As `dashcam why --md` prints it.
    pub markdown: String,
}

/// A capture or a part of one, its origin, and the rules by which it is judged.
pub struct Source {
    /// The capture.
    pub capture: Capture,
    /// Its path, as shown to the user.
    pub file: String,
    limit_ns: Limit,
    verdict: OnceLock<Verdict>,
    /// Of a capture in parts.
    pub(crate) whole: Option<Whole>,
    /// Rows of the parts before.
    pub(crate) before: Counts,
    /// Row numbers of the spans that began in parts before: those of the first in the part.
    pub(crate) carried: Vec<usize>,
    /// Stacks past this id have other ids in the table `stacks`.
    pub(crate) last_stack: u32,
}

impl Source {
    /// `limit_ns` judges requests by their names. Times that no clock can have given are clamped.
    pub fn new(mut capture: Capture, file: String, limit_ns: Limit) -> Source {
        capture.tame();
        Source {
            capture,
            file,
            limit_ns,
            verdict: OnceLock::new(),
            whole: None,
            before: Counts::default(),
            carried: Vec::new(),
            last_stack: u32::MAX,
        }
    }

    /// The verdict by the source's own rules. The first call costs as much as `dashcam why`, the
    /// others nothing.
    pub fn verdict(&self) -> &Verdict {
        self.verdict.get_or_init(|| self.judged(|name| self.limit_ns(name)))
    }

    /// The verdict by other rules; judged anew.
    pub fn judged(&self, limit_ns: impl Fn(&str) -> u64) -> Verdict {
        let diagnosis = diagnose(&self.capture, limit_ns);
        Verdict {
            json: report::to_json(&diagnosis, &self.file).to_string(),
            text: report::to_text(&diagnosis),
            markdown: report::to_markdown(&diagnosis, &self.file),
            findings: diagnosis.findings,
        }
    }

    /// The time a request of that name may take, ns.
    pub fn limit_ns(&self, name: &str) -> u64 {
        (self.limit_ns)(name)
    }

    /// How long a request took, or has taken so far.
    pub(crate) fn took_ns(&self, row: &RequestRow) -> u64 {
        let end_ns = row.end_ns.unwrap_or(self.capture.meta.to_ns);
        end_ns.saturating_sub(row.begin_ns)
    }

    /// What each slow request took beyond what is typical for its name, by id.
    pub(crate) fn excess_ns(&self) -> QuickMap<u64, u64> {
        let limit_ns = |name: &str| self.limit_ns(name);
        match &self.whole {
            Some(whole) => whole.typical.excess_ns(&self.capture, limit_ns),
            None => {
                let judged = Requests::divide(&self.capture, limit_ns);
                judged.slow.iter().map(|r| (r.row.id, judged.excess_ns_of(r))).collect()
            }
        }
    }

    /// An instant by the wall clock: microseconds since the Unix epoch, rounded down.
    pub(crate) fn utc_us(&self, t_ns: u64) -> i64 {
        i64::try_from(self.capture.meta.epoch_ns(t_ns) / 1_000).unwrap_or(i64::MAX)
    }

    /// Row number of the span at this index of the part's.
    pub(crate) fn span_row(&self, index: usize) -> usize {
        let own = |index: usize| self.before[Of::Spans] + index - self.carried.len();
        self.carried.get(index).copied().unwrap_or_else(|| own(index))
    }

    /// How many spans of the program there are in all.
    pub(crate) fn all_spans(&self) -> usize {
        self.whole.as_ref().map_or(self.capture.spans.len(), |whole| whole.counts[Of::Spans])
    }

    /// Ids of the threads that anything is recorded of.
    pub(crate) fn thread_ids(&self) -> BTreeSet<u32> {
        match &self.whole {
            Some(whole) => whole.threads.clone(),
            None => Threads::new(&self.capture).ids().collect(),
        }
    }

    /// How many samples there are of a thread.
    pub(crate) fn samples_of(&self, tid: u32) -> usize {
        match &self.whole {
            Some(whole) => whole.samples.get(&tid).copied().unwrap_or_default(),
            None => self.capture.samples.get(&tid).map_or(0, Vec::len),
        }
    }

    /// Rows of `switches` that stand for a lost record.
    pub(crate) fn switches_mended(&self) -> u64 {
        self.whole.as_ref().map_or(self.capture.switches_mended, |whole| whole.switches_mended)
    }

    /// The stacks of samples, awaits and wakeups.
    pub(crate) fn stacks_in_use(&self) -> Cow<'_, BTreeSet<u32>> {
        match &self.whole {
            Some(whole) => Cow::Borrowed(&whole.stacks),
            None => Cow::Owned(stacks_in_use(&self.capture)),
        }
    }

    /// The stack that the thread was last sampled in before this part; 0: none.
    pub(crate) fn stack_before(&self, tid: u32) -> u32 {
        let last = self.whole.as_ref().and_then(|whole| whole.last_stacks.get(&tid));
        last.copied().unwrap_or_default()
    }

    /// The id of a stack, if the table `stacks` has it.
    pub(crate) fn stack<'a>(&self, stack: u32) -> Cell<'a> {
        id(if stack > self.last_stack { 0 } else { stack })
    }
}
