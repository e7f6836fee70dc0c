//! unknown: what no rule claims. Said, not hidden; the place is where most of it was seen.
//!
//! Signature: none. Quotes: the stacks that most of it passed in (`unexplained`). Never surer than *possible*.

use super::{at, ms_text, Described};
use crate::crowded::SLIVERS;

pub const ADVICE: &str = "Run with more sources (`dashcam doctor`, see \"missing\"), or look at \
     the stacks in `dashcam show`.";

pub fn sentence(d: &Described<'_>) -> String {
    let time = ms_text(d.mean_ms);
    match d.place {
        place if d.target == Some(SLIVERS) => format!(
            "{} got no CPU for {time} between runs of microseconds: it gave it away itself (a loop \
             that yields, a lock that spins), or others took it at once",
            at(place)
        ),
        Some(place) => {
            format!("{time} could not be explained; most of it passed in {}", place.short())
        }
        None => format!("{time} could not be explained: nothing was seen of it"),
    }
}
