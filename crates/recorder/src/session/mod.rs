//! Sessions: further consumers of records beside the black box, each with its own filter, its own
//! queue, its own policy when the queue is full, and its own exact counters.
//!
//! How it works: a session is a bit in the word that every record loads anyway, so no session costs
//! nothing. A record that finds bits set is offered to each of these sessions: filter first, then
//! the queue. A session that closes clears its bit and waits until no thread is inside it.
//!
//! What it promises: a slow or dead reader of one session affects neither other sessions, nor the
//! black box, nor the threads that record; only a session made to block does, up to its limit.

mod consumer;
mod table;

pub(crate) use consumer::offer;
pub use consumer::{Session, SessionCounts};
pub(crate) use table::{forget_all, learn_name};
pub use table::{Filter, SESSIONS};
