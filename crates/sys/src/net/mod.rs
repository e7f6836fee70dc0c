//! Sockets: those of dashcam, and what the kernel knows of the host's.
//!
//! | module | is |
//! | --- | --- |
//! | local | listening and asking at unix sockets, between processes of one user |
//! | send | sockets that only send: UDP and unix ones |
//! | connecting | the peer of a connection that is still being made |
//! | socket | when the last data arrived on a connection |
//!
//! What it promises: no call here waits for a peer unless the caller gives the time, and no write
//! raises SIGPIPE. What is missing on purpose: protocols (crates `otlp`, `openmetrics`, `statsd`).

pub mod connecting;
pub mod local;
pub mod send;
pub mod socket;
