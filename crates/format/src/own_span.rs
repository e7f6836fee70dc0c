//! Names of the spans that the recorder itself writes.

/// A thread of the host was inside `fork`, from the hook before to the hook behind.
pub const FORK: &str = "dashcam.fork";
/// The recorder wrote a capture.
pub const CAPTURE: &str = "dashcam.capture";
/// All of them.
pub const ALL: [&str; 2] = [FORK, CAPTURE];
