//! What threads of one process share without a lock that a fork could leave held.
//!
//! A fork copies one thread; whatever the others held at that instant is held for ever in the
//! child. So everything here is one atomic word, or objects that are only ever added:
//!
//! | module | is |
//! | --- | --- |
//! | addresses | words by addresses that are never used again |
//! | cell | a place for an object that is set rarely and read often |
//! | shelf | a set that only grows |
//! | claim | a lock that names its process, and is free in a child |
//! | latch | an event that happens once, and that a thread waits for |
//! | nap | a sleep that others may cut short |
//! | turns | long work that lets other threads have its CPU |
//!
//! What it promises: nothing here is in a state, at any instruction, that a child of a fork at that
//! instant could not go on from. What is missing on purpose: queues, maps, anything that has to be
//! repaired.

pub mod addresses;
pub mod cell;
pub mod claim;
pub(crate) mod latch;
pub mod nap;
pub mod shelf;
pub mod turns;
