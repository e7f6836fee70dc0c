//! What the sampler decides, without reading anything: one decision a file.

pub mod allotment;
pub mod budget;
pub mod bursts;
pub mod choice;
pub mod drain_pace;
