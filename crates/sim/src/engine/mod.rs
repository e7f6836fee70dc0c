//! The engine: a virtual clock, CPUs, threads, the GIL, and what they wait for.
//!
//! How it works: events lie in a heap by time. Handling one may make threads ready; `settle` then
//! gives them CPUs and lets each that got one go on until it needs time or blocks. Nothing is
//! carried out inside of something else: a wake-up only marks, so each step sees a settled world.
//!
//! ```text
//!   event > timers, arrivals, ends of CPU bursts
//!     settle: dispatch (cpu.rs) <-> go on (step.rs): GIL (hand_over.rs), locks and pools
//!             (things.rs), requests (serve.rs), tasks (loop_turns.rs); what happened goes to
//!             `log` and `record`
//! ```
//! What it promises: the same program and seed give the same run. A thread's log has no holes.
//! What is missing on purpose: queues of each CPU (there is one for all), priorities, wake-ups by
//! interrupts of a device, real memory.

pub(crate) mod actor;
mod cpu;
mod gil;
mod hand_over;
pub mod log;
mod loop_turns;
mod ops;
mod request;
mod serve;
mod step;
mod tasks;
mod things;
mod world;
mod written;

pub use request::{Actor, Request, START_NS};
pub use tasks::{Task, TaskState};
pub use world::World;
