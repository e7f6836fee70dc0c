//! Pure rules: what is slow, and when to save. No clock, no I/O: time is passed in.
//!
//! How it works: `rules` turns the text of `slow=` into limits by request name; `crowd` knows
//! whether a percentile is over its limit; `gate` decides, given a slow request and the time,
//! whether a capture is to be made and when: after the trigger it waits a while (the end of the
//! story is part of the story), then it stays quiet for a cooldown that doubles while firings go
//! on. `errors` reads `on_error=`, `quota` knows when there have been enough captures, `metric`
//! reads `on_metric=` and `watch` judges windows by it, `decay` how far limits fall while nothing
//! fires. `settings` is the list of all settings, and what each accepts.
//!
//! What it promises: the same inputs give the same decisions, and a storm of slow requests yields
//! one capture a cooldown, the rest are counted.

mod crowd;
mod decay;
mod errors;
mod gate;
mod metric;
mod quota;
mod rules;
mod settings;
mod units;
mod watch;

pub use crowd::Crowd;
pub use decay::decayed;
pub use errors::{ErrorRules, MOST_ERROR_RULES};
pub use gate::{Firing, Gate, Timing, Why};
pub use metric::{MetricRules, MOST_METRIC_RULES};
pub use quota::{Quota, Repeats};
pub use rules::{name_matches, Rules, MOST_CROWDS};
pub use settings::{check, nearest, percent, time_or_none, Knob, KNOBS};
pub use units::{bytes, duration_ns, fraction, show_ns, switch, Wrong};
pub use watch::{Came, Excess, MetricWatch};
