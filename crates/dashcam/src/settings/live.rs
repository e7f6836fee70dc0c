//! Settings that change while the process records: `dashcam set PID slow=250ms`.
//!
//! How it works: the effective settings are a value that is never written to; a change publishes
//! another one. Readers load a pointer, so no fork can find a lock held. The sampler notices the
//! new pointer at its next pass, `dashcam-capture` at its next capture; limits by name are looked
//! up anew at once.
//!
//! What it promises: all changes of one command hold, or none. A value set here beats the
//! environment until the process ends, and a forked child starts with it. Old values are left in
//! memory, since a thread may be reading them: hence at most `MOST` changes a process.

use std::sync::Mutex;

use settings::Config;
use sys::cell::StaticRef;

use crate::lock::lock;

/// Changes a process takes; each keeps about 1 KiB.
const MOST: usize = 1000;

/// The settings that hold now.
pub(crate) struct Live {
    now: StaticRef<Config>,
    first: &'static Config,
    /// Changes so far; held while one is made.
    changes: Mutex<usize>,
}

impl Live {
    pub(crate) fn new(config: Config) -> Live {
        let first: &'static Config = Box::leak(Box::new(config));
        let now = StaticRef::empty();
        now.set(Some(first));
        Live { now, first, changes: Mutex::new(0) }
    }

    #[inline]
    pub(crate) fn get(&self) -> &'static Config {
        self.now.get().unwrap_or(self.first)
    }
}

impl Live {
    /// Publishes settings that `edit` made of those that hold, and calls `apply` with the old and
    /// the new ones before another change is made. Errors: `edit`'s, or there were too many
    /// changes; nothing has changed then.
    pub(crate) fn change(
        &self,
        edit: impl FnOnce(&mut Config) -> Result<(), String>,
        apply: impl FnOnce(&'static Config, &'static Config),
    ) -> Result<(), String> {
        let mut changes = lock(&self.changes);
        if *changes >= MOST {
            return Err(format!("found {MOST} changes already, wanted fewer; restart the process"));
        }
        let was = self.get();
        let mut config = was.clone();
        edit(&mut config)?;
        *changes += 1;
        let config: &'static Config = Box::leak(Box::new(config));
        self.now.set(Some(config));
        apply(was, config);
        Ok(())
    }
}
