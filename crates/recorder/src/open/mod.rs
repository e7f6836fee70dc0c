//! Requests that have begun and not ended: their table, and a request's begin and end.

#[cfg(all(loom, test))]
mod models;
mod request;
mod table;

pub use table::{OpenRequest, OpenTable, Request};
