//! A simulator of services: programs drawn from a seed, run on a virtual clock, recorded as dashcam
//! would have, with the truth beside.
//!
//! How it works: `program` draws a service with one defect, and its healthy twin; `engine` runs it
//! on simulated CPUs, with the GIL, locks, pools and peers; `record` writes what the recorder would
//! have written, through the real format and capture code; `judge` reads the truth from the
//! engine's logs, asks the diagnosis, and compares. A seed says everything: the same seed gives the
//! same bytes.
//!
//! What it promises: nothing of it is ever linked into a host (`tools/check_rooms.py`), and it has
//! no clock, no thread and no file of its own while it simulates. What is missing on purpose: what
//! native stacks, wakers and metrics would show; see docs/internals/simulator.md.

pub mod engine;
pub mod fleet;
pub mod judge;
pub mod program;
pub mod random;
pub mod record;
