//! Beginning to record: the first step of every recorder.

use crate::recorder::Recorder;

/// Makes `recorder` the one that records, and turns the black box on.
pub fn install(recorder: &'static Recorder) {
    crate::thread::hook_ends();
    crate::current::set(recorder);
}
