//! What every reader of a capture wants to know first: what threads did when, and whose code it was.
//!
//! How it works: a module a question, each a function of the capture alone. `timeline` cuts a thread's time
//! into exclusive segments that sum to it, `states` does so for a whole capture; `requests` divides slow
//! requests from normal ones; `context` finds the request and span a thread worked on; `frames` knows whose
//! code a frame is; `words` gives names to threads, waits and places.
//!
//! What it promises: diagnosis, export, tables and view ask these same questions here, so that a page, an
//! export and a verdict never disagree about where a thread's time went. No module imports one that
//! imports it.
//!
//! Missing on purpose: inference. Which thread held a lock, what caused a wait and how sure that is are
//! the diagnosis' to say.

pub mod context;
pub mod frames;
pub mod requests;
pub mod states;
pub mod timeline;
pub mod words;
