//! The sources of what is recorded, and the state of each as text (`format::source`).

use std::sync::Mutex;

use crate::lock::lock;

/// By name, in the order in which they were named first.
#[derive(Default)]
pub(crate) struct Sources(Mutex<Vec<(String, String)>>);

impl Sources {
    /// Says how a source is.
    pub(crate) fn set(&self, name: &str, state: String) {
        let mut sources = lock(&self.0);
        match sources.iter_mut().find(|(n, _)| n == name) {
            Some((_, old)) => *old = state,
            None => sources.push((name.to_owned(), state)),
        }
    }

    /// All of them, with their states.
    pub(crate) fn list(&self) -> Vec<(String, String)> {
        lock(&self.0).clone()
    }
}
