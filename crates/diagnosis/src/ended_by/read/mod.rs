//! What was read: from a lock, the interpreter, or the kernel.

pub(crate) mod gil;
pub(crate) mod owner;
pub(crate) mod thread_end;
pub(crate) mod wakeup_record;
