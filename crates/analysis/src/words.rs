//! Words shared by the formats: names of threads, waits, targets and frames.

use capture::read::{Capture, Frame, Text};
use format::record::{Sample, TARGET_IS_NAME};

/// Begin of the names of dashcam's own threads. Readers go by nothing else, so that captures of
/// earlier recorders read the same: `dashcam-capture` was `dashcam-keeper` there.
const OWN_THREADS: &str = "dashcam-";

/// Whether a thread of this name is dashcam's own.
pub fn is_own_thread(name: &str) -> bool {
    name.starts_with(OWN_THREADS)
}

/// A name by its target word: the peer or path waited for.
pub fn target(capture: &Capture, target: u64) -> Option<&str> {
    (target & TARGET_IS_NAME != 0).then(|| capture.name(target as u32))
}

/// The word that names what a sample's thread waits for: a peer, a path, a lock in static memory;
/// 0: none does.
pub fn named_target(sample: &Sample) -> u64 {
    let named = |word: &u64| word & TARGET_IS_NAME != 0;
    [target_and_limit(sample).0, sample.lock].into_iter().find(named).unwrap_or(0)
}

/// Whether the recorded name of a task is its coroutine's: the program gave it none.
pub fn is_a_coroutines(task: &str) -> bool {
    task.ends_with("()")
}

/// A lock's name, by `Sample.lock`: one in static memory.
pub fn lock_name(capture: &Capture, lock: u64) -> Option<&str> {
    target(capture, lock).filter(|name| !name.is_empty())
}

/// The address of the object that all waiters for the same have in common, by `Sample.lock`; 0:
/// none.
pub fn lock_object(lock: u64) -> u64 {
    if lock & TARGET_IS_NAME == 0 {
        lock
    } else {
        0
    }
}

/// The name of an asyncio task that ran, by a sample's word for it.
pub fn task(capture: &Capture, task: u32) -> Option<&str> {
    (task != 0).then(|| capture.name(task))
}

/// A sample's target and time limit in ns; (0, 0) where these words are the accounts of a running
/// thread.
pub fn target_and_limit(sample: &Sample) -> (u64, u64) {
    match sample.usage() {
        Some(_) => (0, 0),
        None => (sample.target, sample.timeout_ns),
    }
}

/// The blocking thread, 0 none: the lock's holder, else the GIL's.
pub fn holder(sample: &Sample) -> u32 {
    match sample.lock_holder {
        0 if sample.gil_holder != sample.tid => sample.gil_holder,
        holder => holder,
    }
}

/// `function (file:line)`, the file without the folders that all of an installation share.
pub fn frame(capture: &Capture, frame: &Frame<'_>) -> String {
    format!("{} ({}:{})", frame.function, short_file(capture, frame.file), frame.line)
}

/// A file without the folder of the interpreter's library or of the installed packages.
pub fn short_file<'f>(capture: &Capture, file: &'f str) -> &'f str {
    // The longest folder first: packages often lie below the library.
    let folders = capture.meta.site.iter().chain(&capture.meta.stdlib);
    let below = |folder: &String| {
        file.strip_prefix(folder.trim_end_matches('/')).and_then(|f| f.strip_prefix('/'))
    };
    folders.filter_map(below).min_by_key(|f| f.len()).unwrap_or(file)
}

/// An attribute's value as text.
pub fn value(value: &Text) -> String {
    match value {
        Text::Int(v) => v.to_string(),
        Text::Float(v) => v.to_string(),
        Text::Bool(v) => v.to_string(),
        Text::Text(v) => v.clone(),
    }
}
