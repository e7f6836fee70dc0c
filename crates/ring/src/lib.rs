//! The black box: one region of fixed size that any thread writes to without waiting, and that can
//! be copied out while they write.
//!
//! How it works: the region is cut into blocks (PROTOCOL.md beside this crate has the full story).
//! A thread owns one block, appends records to it with plain relaxed stores and one release store
//! of the block's head word; when it is full the thread takes the next block in a round, which
//! overwrites the oldest closed one. A thread that ends leaves its half-full block to the next
//! thread that starts; a block that an idle thread holds for a whole round is taken back from it.
//! Names, code locations and stacks are append-only tables beside the blocks.
//!
//! What it promises: appending takes no lock, allocates nothing, makes no system call and executes
//! no fence instruction, also in a signal handler. A copy never stops a writer and never yields a
//! torn record. Written = read + overwritten + dropped, for each thread, to the last record.
//!
//! What it does not promise: order between threads (sort by time when reading).
// A crate whose own models run has this one without its tests.
#![cfg_attr(loom, allow(dead_code, unused_imports))]

mod copy;
mod growth;
#[cfg(all(loom, test))]
mod models;
mod open;
#[cfg(all(loom, test))]
mod open_models;
mod present;
mod queue;
mod region;
mod sync;
mod tables;
mod take;
mod threads;
mod writer;

pub use copy::BlockCopy;
pub use open::{OpenLine, OpenPlace};
pub use queue::{OnFull, Queue, QueueCounts};
pub use region::{Place, Region};
pub use tables::{Class, Name, Tables};
pub use threads::Newcomer;
pub use writer::Writer;
