//! A recording: the recorder, the settings it runs by, its sources, and whether it is to stop.
//!
//! How it works: one for each start, shared by all threads of ours. It has what every part needs;
//! what only some need (the queue of captures, the trigger's state, streams, the control socket) is
//! passed to these.
//!
//! What it promises: reading a setting takes no lock. Changing some is all or nothing: see `live`.

pub(crate) mod growth;
pub(crate) mod integrations;
pub(crate) mod meta;
pub(crate) mod no_requests;
pub(crate) mod runtime;
pub(crate) mod share;
pub(crate) mod sources;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use format::region::losses;
use format::source::SourceState;
use recorder::Recorder;
use sampler::Figures;
use settings::{AtExit, Config, KNOBS};
use trigger::Wrong;

use crate::recording::growth::Growth;
use crate::recording::no_requests::Notice;
use crate::recording::runtime::Runtime;
use crate::recording::share::Share;
use crate::recording::sources::Sources;
use crate::settings::judge::{judge_by, judge_errors};
use crate::settings::live::Live;

/// What is said when an allocation of ours was refused.
pub(crate) const RAN_OUT: &str = "memory ran out; recording has ended";

/// What runs.
pub(crate) struct Recording {
    pub recorder: &'static Recorder,
    pub runtime: Runtime,
    pub sources: Sources,
    /// What the sampler counts of itself.
    pub sampler: Figures,
    /// Of the sampler's budget.
    pub share: Share,
    /// Of the black box.
    pub growth: Growth,
    /// Why no request has begun.
    pub no_requests: Notice,
    /// Slow requests when the last capture was made. Written by `dashcam-capture`. Relaxed: a
    /// count, which orders nothing.
    slow_captured: AtomicU64,
    live: Live,
    /// Set once; the threads leave.
    stop: AtomicBool,
}

impl Recording {
    pub(crate) fn new(recorder: &'static Recorder, config: Config, runtime: Runtime) -> Recording {
        Recording {
            recorder,
            runtime,
            sources: Sources::default(),
            sampler: Figures::default(),
            share: Share::new(),
            growth: Growth::default(),
            no_requests: Notice::default(),
            slow_captured: AtomicU64::new(0),
            live: Live::new(config),
            stop: AtomicBool::new(false),
        }
    }

    /// The settings that hold now.
    #[inline]
    pub(crate) fn config(&self) -> &'static Config {
        self.live.get()
    }

    /// What the sampler may use now, percent of a core: the setting, or this process's part of it.
    pub(crate) fn budget_percent(&self) -> f64 {
        self.config().budget_percent * self.share.part()
    }

    /// Says how a source is.
    pub(crate) fn set_source(&self, name: &str, state: SourceState) {
        self.sources.set(name, state.to_string());
    }

    /// Whether it is to stop.
    pub(crate) fn stopping(&self) -> bool {
        // Relaxed: polled; the join that follows orders everything.
        self.stop.load(Ordering::Relaxed)
    }

    /// It is to stop.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether the black box is due to grow, for which `dashcam-capture` is to be woken.
    pub(crate) fn is_short(&self, now_ns: u64) -> bool {
        self.growth.is_due(self.recorder.region(), self.config(), now_ns)
    }

    /// Stores what a recovered capture needs to know in the black box itself.
    pub(crate) fn store_settings(&self) {
        let text = meta::lasting(self.config(), &self.runtime, &self.sources.list()).finish();
        let id = self.recorder.tables().long_text(&text);
        let slot = self.recorder.region().header(format::region::word::SETTINGS);
        slot.store(u64::from(id), Ordering::Release);
    }

    /// Requests begun, and those that ended past their limit.
    pub(crate) fn requests(&self) -> (u64, u64) {
        requests(self.recorder)
    }

    /// A capture was made: it has the slow requests so far.
    pub(crate) fn captured(&self) {
        self.slow_captured.store(self.requests().1, Ordering::Relaxed);
    }

    /// Whether slow requests are in no capture yet, for which the end of the process saves one.
    pub(crate) fn owes_a_capture(&self) -> bool {
        let is_wanted = !matches!(self.config().at_exit, AtExit::Never);
        is_wanted && self.requests().1 > self.slow_captured.load(Ordering::Relaxed)
    }

    /// Why there are none, if that is known; else "".
    pub(crate) fn no_requests_because(&self) -> String {
        self.no_requests.text(self.requests().0)
    }

    /// Changes settings (name, value). Errors say which value is wrong, or which setting cannot be
    /// changed in a running process; nothing has changed then.
    pub(crate) fn change(&self, given: &[(String, String)]) -> Result<(), String> {
        self.live.change(|config| edit(config, given), |was, now| self.apply(was, now))
    }

    fn apply(&self, was: &Config, now: &Config) {
        self.recorder.nap().wake();
        if was.slow.rules != now.slow.rules {
            judge_by(self.recorder, now.slow.rules.clone());
        }
        if was.on_error.rules != now.on_error.rules {
            judge_errors(self.recorder, now.on_error.rules.clone());
        }
        match (was.enabled, now.enabled) {
            (true, false) => recorder::pause(),
            (false, true) => recorder::resume(),
            _ => (),
        }
        self.store_settings();
    }
}

fn edit(config: &mut Config, given: &[(String, String)]) -> Result<(), String> {
    for (name, value) in given {
        let knob = KNOBS.iter().find(|knob| knob.name == name);
        if !knob.is_some_and(|knob| knob.live) {
            let live = KNOBS.iter().filter(|knob| knob.live);
            let names: Vec<&str> = live.map(|knob| knob.name).collect();
            let found = match knob {
                Some(_) => "a setting that needs a restart",
                None => "no setting of this name",
            };
            return Err(format!("{name}: found {found}, wanted one of {}", names.join(", ")));
        }
        config.set(name, value).map_err(|wrong: Wrong| wrong.to_string())?;
    }
    Ok(())
}

/// Requests begun, and those that ended past their limit.
pub(crate) fn requests(recorder: &Recorder) -> (u64, u64) {
    // A request that found no room in the table has drawn two numbers.
    let twice = recorder.region().losses()[losses::REQUESTS_UNTRACKED];
    let begun = recorder.open_requests().begun();
    (begun.saturating_sub(twice), recorder.limits().slow_count())
}
