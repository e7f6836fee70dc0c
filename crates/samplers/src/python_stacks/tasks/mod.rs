//! Tasks of asyncio and greenlets: all of them, the running one, the frames of a suspended one.

pub(crate) mod asyncio_code;
pub(crate) mod chain;
pub(crate) mod greenlets;
pub(crate) mod running;
pub(crate) mod task_chains;
pub(crate) mod task_lists;
