//! Triggers: rules that decide when to capture. Pure: no clock, no I/O; time is passed in.
//!
//! How it works: `rules` turns the text of `slow=` into limits by request name; `crowd` decides
//! whether a percentile is over its limit. `gate` decides, given a slow request and the time,
//! whether a capture is made and when: a while after the trigger, so that the capture contains what
//! followed; then comes a cooldown that doubles while firings go on. `errors` reads `on_error=`,
//! `quota` limits the captures of a day, `metric` reads `on_metric=` and `watch` applies it to
//! windows, `decay` computes how far limits fall while nothing fires.
//!
//! What it promises: the same inputs give the same decisions. Many slow requests at once yield one
//! capture for each cooldown; the rest are counted.

mod crowd;
mod decay;
mod errors;
mod gate;
mod labels;
mod metric;
mod quota;
mod rules;
mod units;
mod watch;

pub use crowd::Crowd;
pub use decay::decayed;
pub use errors::{ErrorRules, MOST_ERROR_RULES};
pub use gate::{Firing, Gate, Timing, Why};
pub use labels::{labels, merged, Labels};
pub use metric::{MetricRules, MOST_METRIC_RULES};
pub use quota::{Quota, Repeats};
pub use rules::{name_matches, Rules, MOST_CROWDS};
pub use units::{bytes, duration_ns, fraction, show_ns, switch, took_text, Wrong};
pub use watch::{Came, Excess, MetricWatch};
