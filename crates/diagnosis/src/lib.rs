//! From a capture to a named cause.
//!
//! How it works: requests are divided into slow and normal ones by the rules the capture was made
//! under (`requests`). Each slow request's time is cut into exclusive segments of its thread
//! (`timeline`), each segment is claimed by a cause (`causes`, one file each), waits for work on
//! other threads are replaced by what those did (`pieces`), and of requests on an event loop by
//! what their task was seen to await (`awaits`); time without a CPU inside of long work is that
//! work's (`crowded`). What normal requests do too is taken off, and what remains is grouped by
//! cause and place (`group`; `repeats` counts calls in a loop, `retries` pauses), ranked, given a
//! confidence (`confidence`) and put into words (`finding`, `text`, `json`, `markdown`).
//!
//! What it promises: a pure function of the capture; the shares of all findings and the unexplained
//! part sum to 1; no slow request, no finding. What it does not know it calls unknown.

mod arrival;
mod awaits;
mod callers;
pub mod causes;
mod confidence;
mod course;
mod crossed;
mod crowded;
mod culprits;
pub mod explain;
mod finding;
mod gil;
mod group;
mod heads;
mod json;
mod json_values;
mod keepers;
mod markdown;
mod own_cost;
pub mod pieces;
mod regulars;
mod repeats;
mod retries;
mod running_task;
pub mod scene;
mod takers;
mod text;
mod unexplained;
mod unheld;
mod usage;
mod waiters;
mod wakers;
mod woken;

pub use analysis::frames::Place;
pub use confidence::Confidence;
pub use explain::text::to_explanation;
pub use finding::{diagnose, diagnose_explained, Diagnosis, Evidence, Finding};
pub use json::to_json;
pub use markdown::{escaped, to_markdown};
pub use pieces::divided;
pub use text::to_text;
