//! From a capture to a named cause.
//!
//! How it works: requests are divided into slow and normal ones by the rules the capture was made
//! under. Each slow request's critical path is cut into exclusive slices, and each slice is claimed
//! by a cause: waits by what held or ended them, waits for work on other threads replaced by what
//! those did. What normal requests do too is taken off, and what remains is grouped by cause and
//! place, ranked, given a confidence and a sentence.
//!
//! What it promises: a pure function of the capture; the shares of all findings and the unexplained
//! part sum to 1; no slow request, no finding. What it does not know it calls unknown.
//!
//! Missing on purpose: the layout of a verdict, as text or JSON (`crates/report`).
//!
//! The modules are in layers: each imports only those below it (`tools/check_rooms.py` reads this
//! list).
//!
//! ```text
//! judge           a capture -> a verdict; a group of slices -> a finding, its confidence
//! reported        what a finding reports beside its cause: callers, calls in a loop, wakeups
//! groups          the weight of each slice; slices of one cause and place; the threads to blame
//! critical_path   a request's time as slices of threads, each with its claim
//! causes          which cause claims a segment, and its sentence and advice: one file each
//! ended_by        which thread held what was waited for, or ended the wait: one file an inference
//! facts           what code and threads were at, without blame
//! candidate       the candidates of all inferences for a blocker, and the best of them
//! evidence        what the evidence of each inference weighs: one table
//! compare         threads within one inference: tests, evidence, what an explanation keeps of them
//! context         a capture's index, the limit, remembered answers
//! memo            the types of remembered answers
//! claim           claims, blockers, slices
//! finding         the data of a verdict
//! explain         the data of an explanation, and where it is kept
//! order           in which order rules and inferences are asked
//! cause           the list of causes
//! doing           what a blocker did, and its words
//! ```

mod candidate;
mod cause;
mod causes;
mod claim;
mod compare;
mod context;
mod critical_path;
mod doing;
mod ended_by;
pub mod evidence;
pub mod explain;
mod facts;
mod finding;
mod groups;
mod judge;
mod memo;
mod order;
mod reported;

pub use analysis::frames::Place;
pub use cause::Cause;
pub use claim::{Blocker, Claim, Slice};
pub use critical_path::CriticalPaths;
pub use finding::{Confidence, Diagnosis, Evidence, Finding, Suspect, Unit};
pub use judge::{diagnose, diagnose_explained, diagnose_in_order, wanted};
pub use order::Order;
