//! Settings that change while the process records: `dashcam set PID slow=250ms`.
//!
//! How it works: the effective settings are a value that is never written to; a change publishes
//! another one. Readers load a pointer, so no fork can find a lock held. The sampler notices the
//! new pointer at its next pass, the keeper at its next capture; limits by name are looked up anew
//! at once.
//!
//! What it promises: all changes of one command hold, or none. A value set here beats the
//! environment until the process ends, and a forked child starts with it. Old values stay in
//! memory, since somebody may be reading them: hence at most `MOST` changes a process.

use std::sync::Mutex;

use recorder::{Limit, Recorder};
use sys::cell::StaticRef;
use trigger::{Rules, Wrong};

use crate::config::{Config, LIVE};
use crate::control::{lock, Shared};
use crate::firing;

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

impl Shared {
    /// Changes settings (name, value). Errors say which value is wrong, or which setting cannot be
    /// changed in a running process; nothing has changed then.
    pub(crate) fn change(&self, given: &[(String, String)]) -> Result<(), String> {
        let mut changes = lock(&self.live.changes);
        if *changes >= MOST {
            return Err(format!("found {MOST} changes already, wanted fewer; restart the process"));
        }
        let mut config = self.config().clone();
        for (name, value) in given {
            let refused = |wrong: Wrong| wrong.to_string();
            if !LIVE.contains(&name.as_str()) {
                return Err(format!(
                    "{name}: found a setting that cannot change in a running process, wanted one \
                     of {}",
                    LIVE.join(", ")
                ));
            }
            config.set(name, value).map_err(refused)?;
        }
        let (rules, enabled) = (config.rules.clone(), config.enabled);
        let errors = config.error_rules.clone();
        let was = self.config();
        *changes += 1;
        self.live.now.set(Some(Box::leak(Box::new(config))));
        self.recorder.nap().wake();
        if was.rules != rules {
            judge_by(self.recorder, rules);
        }
        if was.error_rules != errors {
            firing::judge_errors(self, errors);
        }
        match (was.enabled, enabled) {
            (true, false) => recorder::pause(),
            (false, true) => recorder::resume(),
            _ => (),
        }
        self.store_settings();
        Ok(())
    }
}

/// The limit of a name by these rules.
pub(crate) fn limit_of(rules: Rules) -> recorder::LimitOf {
    Box::new(move |name: &str| Limit {
        ns: rules.limit_ns(name),
        group: rules.crowd_of(name).map_or(0, |crowd| crowd + 1),
    })
}

/// Judges requests by these rules from here on.
pub(crate) fn judge_by(recorder: &Recorder, rules: Rules) {
    recorder.set_limits(limit_of(rules));
}
