//! The data of a verdict: findings, ranked, with their confidence and evidence.

use analysis::frames::Place;
use analysis::resource::Resource;
pub use analysis::unit::Unit;
use capture::read::Capture;

use crate::cause::Cause;
use crate::explain::Explanation;

/// One figure behind a finding.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// What was measured.
    pub what: String,
    /// Its value.
    pub value: f64,
    /// Its unit.
    pub unit: Unit,
}

/// A cause of the slow requests.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The cause.
    pub cause: Cause,
    /// Part of the slow requests' excess it explains, 0 to 1.
    pub share: f64,
    /// How sure.
    pub confidence: Confidence,
    /// Same cause, same place, another day: same text.
    pub fingerprint: String,
    /// Slow requests that have it.
    pub slow_requests: usize,
    /// Normal requests that have as much of it.
    pub normal_requests: usize,
    /// One sentence.
    pub summary: String,
    /// The innermost own frame at which time passed.
    pub place: Option<Place>,
    /// The place of the culprit, when another thread caused it.
    pub culprit: Option<Place>,
    /// Where else requests waited for that culprit, and the part of the excess of each; the
    /// heaviest first.
    pub elsewhere: Vec<(Place, f64)>,
    /// What was waited for.
    pub resource: Option<Resource>,
    /// Request's own functions on the way to the place, outermost first.
    pub path: Vec<String>,
    /// Name of the request that went that way.
    pub request: String,
    /// Whether that request called what is reported; false for what kept its event loop, whichever
    /// request it was for.
    pub called_by_request: bool,
    /// Figures.
    pub evidence: Vec<Evidence>,
    /// Where the requests of an unexplained finding were, as calls, and the part of its time, %;
    /// the heaviest first.
    pub passed_in: Vec<(String, f64)>,
    /// What would make it surer.
    pub missing: Vec<String>,
    /// What to do.
    pub advice: &'static str,
    /// Threads it was seen on.
    pub threads: usize,
    /// Begin of the slow requests that have it, by time.
    pub seen_ns: Vec<u64>,
    /// Trace ids of the slowest that have it, 32 hex digits, the slowest first; at most three.
    pub trace_ids: Vec<String>,
    /// The first of them came from outside, so that other tools know it too.
    pub trace_is_known: bool,
    /// Why it says so, if that was asked for.
    pub explanation: Option<Explanation>,
}

impl Finding {
    /// What was waited for, in words.
    pub fn target(&self) -> Option<String> {
        self.resource.as_ref().map(Resource::to_string)
    }
}

/// The verdict on a capture.
pub struct Diagnosis<'c> {
    /// The capture.
    pub capture: &'c Capture,
    /// Requests seen.
    pub total: usize,
    /// Slow requests.
    pub slow: usize,
    /// Limit, ns; the lowest, if the slow ones have several.
    pub threshold_ns: u64,
    /// The lowest and the highest limit of the slow requests, or of all if none was slow, ns. None:
    /// no rule holds for any of them.
    pub limits_ns: Option<(u64, u64)>,
    /// Typical time, ns; None without a normal request.
    pub typical_ns: Option<u64>,
    /// Worst time, ns.
    pub worst_ns: u64,
    /// What all slow requests took beyond typical, ns: shares are parts of it.
    pub excess_ns: u64,
    /// Requests that ended by an error, slow or not.
    pub failed: usize,
    /// Of these, how many by name, most first.
    pub failures: Vec<(&'c str, usize)>,
    /// Requests whose end was lost: judged neither slow nor normal, nor counted.
    pub endless: usize,
    /// Slow requests older than the time the capture covers: not judged, nor counted.
    pub older: usize,
    /// How many slow and how many normal requests the findings rest on.
    pub examined: (usize, usize),
    /// Findings, largest share first.
    pub findings: Vec<Finding>,
    /// Part of the excess no finding explains.
    pub unexplained_share: f64,
    /// Mean time a slow request spent on the usual suspects, ms.
    pub suspects: Vec<(Suspect, f64)>,
}

/// What an operator asks about first, whether it is a finding or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspect {
    /// Time without a CPU.
    RunDelay,
    /// Garbage collections.
    Gc,
    /// Waits for the GIL.
    Gil,
    /// Waits for locks.
    Locks,
    /// What dashcam itself took.
    Dashcam,
}

impl Suspect {
    /// As in the JSON.
    pub fn text(self) -> &'static str {
        match self {
            Suspect::RunDelay => "run delay",
            Suspect::Gc => "GC",
            Suspect::Gil => "GIL",
            Suspect::Locks => "locks",
            Suspect::Dashcam => "dashcam itself",
        }
    }

    /// Whether a finding of this cause reports it.
    pub fn is(self, cause: Cause) -> bool {
        match self {
            Suspect::RunDelay => matches!(cause, Cause::CpuStarved | Cause::CpuThrottled),
            Suspect::Gc => cause == Cause::GcPause,
            Suspect::Gil => cause == Cause::GilWait,
            Suspect::Locks => cause == Cause::LockWait,
            Suspect::Dashcam => false,
        }
    }
}

/// How sure a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// Something fits, little was seen.
    Possible,
    /// Seen, but a part is estimated or inferred.
    Likely,
    /// Seen in nearly all slow requests, in no normal one, times and culprit measured.
    Confirmed,
}

impl Confidence {
    /// As in the JSON.
    pub fn text(self) -> &'static str {
        match self {
            Confidence::Possible => "possible",
            Confidence::Likely => "likely",
            Confidence::Confirmed => "confirmed",
        }
    }
}
