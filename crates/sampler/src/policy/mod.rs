//! What the sampler decides, without reading anything: one decision a file.

pub mod allotment;
pub mod budget;
pub mod bursts;
pub mod choice;
pub mod drain_pace;
pub mod order;
pub mod overdue;
pub mod progress;
pub mod schedule;
pub mod task_due;
pub mod thread_list;
pub mod tracks;
