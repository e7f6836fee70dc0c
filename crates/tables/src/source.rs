//! A capture, and the queries of tables on it.

use std::sync::OnceLock;

use capture::read::{Capture, RequestRow};
use diagnosis::{diagnose, Diagnosis, Finding};

/// The time a request of that name may take, ns; u64::MAX: any.
pub type Limit = Box<dyn Fn(&str) -> u64 + Send + Sync>;

/// A capture, its origin, and the rules by which it is judged.
pub struct Source {
    /// The capture.
    pub capture: Capture,
    /// Its path, as shown to the user.
    pub file: String,
    limit_ns: Limit,
    findings: OnceLock<Vec<Finding>>,
}

impl Source {
    /// `limit_ns` judges requests by their names. Times that no clock can have given are clamped.
    pub fn new(mut capture: Capture, file: String, limit_ns: Limit) -> Source {
        capture.tame();
        Source { capture, file, limit_ns, findings: OnceLock::new() }
    }

    /// The verdict. Costs as much as `dashcam why`, each time.
    pub fn diagnosis(&self) -> Diagnosis<'_> {
        diagnose(&self.capture, |name| (self.limit_ns)(name))
    }

    /// The verdict's findings; computed once.
    pub fn findings(&self) -> &[Finding] {
        self.findings.get_or_init(|| self.diagnosis().findings)
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

    /// An instant by the wall clock: microseconds since the Unix epoch, rounded down.
    pub(crate) fn utc_us(&self, t_ns: u64) -> i64 {
        i64::try_from(self.capture.meta.epoch_ns(t_ns) / 1_000).unwrap_or(i64::MAX)
    }
}
