//! The sampler: which threads and tasks are sampled, when, and at what cost.
//!
//! | part | holds | imports |
//! | --- | --- | --- |
//! | `world` | what the sampler needs of the world, as traits: `Clock`, `Proc`, `Sink` | |
//! | `kernel` | the real world, by crate `sys` | `world` |
//! | `policy/` | decisions, one a file | |
//! | `threads/` | samples of threads: states, stacks, blockers | `world`, `under_gil` |
//! | `tasks` | samples of suspended tasks | `world`, `threads` |
//! | `switches/` | switch records, wakeups, waker stacks | `world`, `policy`, `threads` |
//! | `vitals/` | counters of process and host, and how late the sampler was | `world` |
//! | `sampler` | a pass: its steps and their order | all of these |
//!
//! How it works: the owner of the thread calls `Sampler::pass`, `end_pass`, and sleeps until `next`
//! says. The world is one type parameter: in a host no call goes through a pointer; in a test
//! times, threads and switch records come from a seed. The decisions in `policy/` are: budget,
//! schedule, the choice of threads and their order, what is new of each, bursts of thread creation,
//! the pace of drains.
//!
//! What it promises: a decision depends on its arguments alone; a pass is bounded in threads and in
//! CPU time, and paid from the budget. What is missing on purpose: how stacks are read (crate
//! `samplers`), when a capture is made (crate `trigger`), threads and sleeping (the facade).

mod figures;
pub mod kernel;
mod native_tasks;
pub mod policy;
mod sampler;
mod settings;
mod switches;
mod tasks;
mod threads;
pub mod under_gil;
mod vitals;
pub mod world;

pub use figures::Figures;
pub use policy::schedule::Next;
pub use sampler::Sampler;
pub use settings::{Settings, TURNED_OFF};
pub use tasks::set_asyncio_tasks;
pub use threads::task_names::set_asyncio_running;
