//! Places for objects that are set rarely and read by many threads, without a lock.

mod static_ref;
mod visited;

pub use static_ref::StaticRef;
pub use visited::{StillVisited, Visited};
