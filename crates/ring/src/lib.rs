//! The black box: one region of fixed size that any thread writes to without waiting, and that can
//! be copied out while they write.
//!
//! How it works: the region is cut into blocks (PROTOCOL.md beside this crate has the full story).
//! A thread owns one block, appends records to it with plain relaxed stores and one release store
//! of the block's head word; when it is full the thread takes the next block in a round, which
//! overwrites the oldest closed one. A thread that ends leaves its half-full block to the next
//! thread that starts. Names, code locations and stacks are append-only tables beside the blocks.
//!
//! What it promises: appending takes no lock, allocates nothing, makes no syscall and no fence that
//! costs anything on x86-64. A copy never stops a writer and never yields a torn record. What is
//! overwritten or dropped is countable: records of a thread are numbered.
//!
//! What it does not promise: order between threads (sort by time when reading).
//! Missing on purpose: sessions, take-back of blocks from idle owners; see docs/losses.md.

mod copy;
mod region;
mod tables;
mod writer;

pub use copy::BlockCopy;
pub use region::{Place, Region};
pub use tables::{Class, Name, Tables};
pub use writer::Writer;
