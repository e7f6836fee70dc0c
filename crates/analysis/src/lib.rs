//! What every reader of a capture asks first: what threads did when, and the owner of the code.
//!
//! How it works: each module answers one question, as functions of the capture alone. `timeline`
//! cuts a thread's time into exclusive segments that sum to it, `states` does so for a whole
//! capture; `requests` divides slow requests from normal ones; `context` finds the request and span
//! a thread worked on; `frames` knows the owner of a frame's code, `servers` which code takes
//! requests in; `gaps` finds times in which the whole process may have been stopped; `words` gives
//! names to threads, waits and places, `readable` writes numbers as a person reads them, `unit`
//! says in what they are. `index` answers what a thread did at a given time, `loops` and `forks`
//! which part of that was an event loop's own wait or a fork. `waits` joins one wait from the
//! segments it was cut into; `resource` says what was waited for, `signatures` which code waits for
//! what. `thresholds` has the numbers that decide, `cost` those that only save work.
//!
//! What it promises: diagnosis, export, tables and view ask these same questions here, so that a
//! page, an export and a verdict never disagree about where a thread's time went. No module imports
//! one that imports it.
//!
//! Missing on purpose: inference. Which thread held a lock, what caused a wait and how sure that is
//! are the diagnosis' to say.

pub mod context;
pub mod cost;
mod forks;
pub mod frames;
pub mod gaps;
pub mod index;
mod loops;
pub mod readable;
pub mod requests;
pub mod resource;
pub mod servers;
pub mod signatures;
pub mod states;
pub mod temporary;
pub mod thresholds;
pub mod timeline;
pub mod unit;
pub mod waits;
pub mod words;
