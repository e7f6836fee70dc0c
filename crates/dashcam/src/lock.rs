//! Locks and panics of ours, neither of which may reach the host.

use std::sync::{Mutex, MutexGuard};

/// A lock that a panic elsewhere cannot make unusable: the data behind it are lists and texts that
/// are whole at every step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// What `body` returns, or what an internal error of ours said: none of them reaches the host.
pub(crate) fn contained<T>(body: impl FnOnce() -> T) -> Result<T, String> {
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
    ended.map_err(|why| internal_error(&*why))
}

/// What a panic said, in a line; it may have gone to no stderr (`sys::ours`).
pub(crate) fn internal_error(why: &(dyn std::any::Any + Send)) -> String {
    let text = why.downcast_ref::<&str>().copied();
    let text = text.or(why.downcast_ref::<String>().map(String::as_str)).unwrap_or("");
    format!("an internal error ({text}); please report it")
}
