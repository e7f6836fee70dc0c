//! Names of the spans that the recorder itself writes.

/// A thread of the host was inside `fork`, from the hook before to the hook behind.
pub const FORK: &str = "dashcam.fork";
/// The recorder wrote a capture.
pub const CAPTURE: &str = "dashcam.capture";
/// A thread of the host was inside the program's own predicate (`when=`), for a millisecond or
/// more.
pub const PREDICATE: &str = "dashcam.when";
/// All of them.
pub const ALL: [&str; 3] = [FORK, CAPTURE, PREDICATE];
