//! Commands about running processes: start one, attach to one, read and control those that record.

pub(crate) mod attach;
pub(crate) mod dump;
pub(crate) mod dump_text;
pub(crate) mod live;
pub(crate) mod named;
pub(crate) mod python;
pub(crate) mod run;
pub(crate) mod status_text;
