//! Lines on stderr.

/// One line. A closed or broken stderr is the host's business, and no reason to fail.
pub(crate) fn say(text: &str) {
    sys::stderr::line(&format!("dashcam: {text}"));
}
