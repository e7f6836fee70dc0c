//! The control socket: `dashcam ps`, `status`, `dump`, `snap` and `set` from another shell.

mod dump;
pub(crate) mod remote;
pub(crate) mod status;
