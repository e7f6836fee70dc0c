//! CPUs: computing, and having none.

pub(crate) mod cpu;
pub(crate) mod cpu_starved;
pub(crate) mod cpu_throttled;
