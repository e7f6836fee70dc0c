//! Metrics: handles for the program, and a window each second for the sinks (StatsD, scrapers, the
//! box).

pub(crate) mod flush;
pub(crate) mod forward;
pub(crate) mod handles;
pub(crate) mod own;
pub(crate) mod scrape;
pub(crate) mod windows;
