//! Objects found from where a thread is: in the words of a frame, and in what they refer to.

pub(crate) mod exits;
pub(crate) mod references;
pub(crate) mod slots;
pub(crate) mod sockets;
