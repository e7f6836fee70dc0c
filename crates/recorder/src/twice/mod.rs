//! Records of long events are written twice: by their thread, and by the sampler.
//!
//! Why: a verdict may rest on one record, such as the end of the only slow request, the begin of a
//! task, or a fork that stopped every thread. Its thread may lose it (no free block while many
//! threads start, an overwritten block).
//!
//! How it works: the thread posts the record to a mailbox, and the sampler appends it once more
//! from its own block. Readers ignore the second copy of a record that they have.
//!
//! What it does not promise: of more than `MOST` posts at one time the rest is not written again.
//! The more there are, the less one of them matters.

mod again;
mod posts;

pub(crate) use posts::{Twice, LONG_NS, WORDS};
