//! Inferences from one wait, by samples and switch records.

pub(crate) mod cpu_user;
pub(crate) mod inside_call;
pub(crate) mod left_place;
pub(crate) mod lock_order;
pub(crate) mod queue_reader;
pub(crate) mod ran_before;
pub(crate) mod transaction;
