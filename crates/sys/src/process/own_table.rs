//! Work that opens files, for threads of the host's that call us.
//!
//! How it works: it runs on a short-lived thread of ours with its own table of descriptors
//! (`ours::move_apart`), while the caller waits. Threads that it starts have that table, too.
//!
//! What it promises: what it opens takes none of the host's numbers, not for a moment. Missing on
//! purpose: threads that live longer, which get such a table themselves.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::ours;
use crate::thread::spawn_quiet;

/// Runs `work` on a thread of the given name, and waits for its end. `work` gets an error where
/// there is no table of our own, and runs in the host's; without a thread either, on the caller.
/// On a thread that has such a table it runs at once. None: it panicked.
pub fn run<T: Send + 'static>(
    name: &str,
    work: impl FnOnce(io::Result<()>) -> T + Send + 'static,
) -> Option<T> {
    if ours::is_apart() {
        return Some(work(Ok(())));
    }
    // Shared, since the body of a thread that does not start is dropped.
    let work = Arc::new(Mutex::new(Some(work)));
    let result = Arc::new(Mutex::new(None));
    let (its_work, its_result) = (work.clone(), result.clone());
    let body = move || {
        let apart = ours::move_apart();
        if let Some(work) = take(&its_work) {
            *lock(&its_result) = Some(work(apart));
        }
    };
    match spawn_quiet(name, body) {
        Ok(thread) => {
            thread.join();
            take(&result)
        }
        Err(error) => take(&work).map(|work| work(Err(error))),
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn take<T>(from: &Mutex<Option<T>>) -> Option<T> {
    lock(from).take()
}
