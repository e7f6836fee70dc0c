//! What leaves the process while it runs: live streams, and requests and metrics by OTLP.

pub(crate) mod otlp;
pub(crate) mod stream;
