//! unknown: what no rule claims. Said, not hidden; the place is where most of it was seen.

use super::{ms_text, Described};

pub const ADVICE: &str = "Run with more sources (`dashcam doctor`, see \"missing\"), or look at \
     the stacks in `dashcam show`.";

pub fn sentence(d: &Described<'_>) -> String {
    let time = ms_text(d.mean_ms);
    match d.place {
        Some(place) => {
            format!("{time} could not be explained; most of it passed in {}", place.short())
        }
        None => format!("{time} could not be explained: nothing was seen of it"),
    }
}
