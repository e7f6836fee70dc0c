//! The control socket: `dashcam ps`, `status`, `snap` and `set` from another shell.

pub(crate) mod remote;
pub(crate) mod status;
