//! The sampler in a simulated world: clocks, /proc and switch records come from a seed. No thread,
//! no sleep, no kernel: a minute of passes takes some milliseconds, and is the same each time.
#![allow(clippy::expect_used)]

mod budget;
mod bursts_of_threads;
mod gaps;
mod in_the_way;
mod pacing;
mod stalled;
mod world;
