//! The thread that samples, asks the trigger, and writes open states before a copy of the ring.
//!
//! How it works: crate `sampler` says what a pass reads and when the next one is due; this loop
//! makes the passes, between which it sleeps, and gives each pass's open requests to the trigger.
//! What that costs is part of the pass, so it is paid from the same budget.
//!
//! What it promises: while nothing is recorded switches are still drained, and captures that were
//! asked for are made.

use format::source::SourceState;
use std::sync::Arc;
use std::time::Duration;

use recorder::Recorder;
use sampler::kernel::Kernel;
use sampler::under_gil::UnderGil;
use sampler::world::{Sink, World};
use sampler::{Figures, Next, Sampler, Settings, TURNED_OFF};
use settings::Config;
use sys::clock::Following;
use sys::perf::Wakings;

use crate::captures::queue::Queue;
use crate::recording::{Recording, RAN_OUT};
use crate::threads::interpreter;
use crate::triggers::firing::Triggers;

/// Between two turns while nothing is recorded.
const IDLE: Duration = Duration::from_millis(50);
/// `dashcam-capture` has added a step to the box by then.
const STEP_TIME: Duration = Duration::from_millis(2);

/// What `status` says of the sampler's sources before its first pass.
pub(crate) fn announce(recording: &Recording) {
    let config = recording.config();
    for (name, wanted) in [
        ("native_stacks", config.stacks),
        ("running_stacks", config.stacks),
        ("switches", config.switches),
        ("threads", true),
        ("vitals", true),
        ("wakers", config.switches),
    ] {
        let why = if wanted { "the sampler has not begun" } else { TURNED_OFF };
        recording.set_source(name, SourceState::off(why));
    }
}

/// Where the sampler's records go: the calling thread's blocks.
struct Records {
    recording: Arc<Recording>,
    queue: Arc<Queue>,
}

impl Sink for Records {
    #[inline]
    fn append(&self, record: &[u64], now_ns: u64) {
        recorder::append(record, now_ns);
    }

    #[inline]
    fn recorder(&self) -> &'static Recorder {
        self.recording.recorder
    }

    fn set_source(&self, name: &str, state: SourceState) {
        self.recording.set_source(name, state);
    }

    fn store_sources(&self) {
        self.recording.store_settings();
    }

    fn retire(&self, wakings: Option<Wakings>) {
        self.queue.retire(wakings);
    }

    fn figures(&self) -> &Figures {
        &self.recording.sampler
    }
}

fn settings(config: &Config, budget_percent: f64) -> Settings {
    Settings {
        period_ns: config.period_ns,
        budget_percent,
        threads: config.threads as usize,
        switches: config.switches,
        stacks: config.stacks,
    }
}

/// The thread's life. `triggers`: made of the settings `config`.
pub(crate) fn run(
    recording: &Arc<Recording>,
    queue: Arc<Queue>,
    under_gil: Arc<UnderGil>,
    (triggers, config): (Triggers, &'static Config),
) {
    recorder::name_thread("dashcam-sampler");
    let records = Records { recording: recording.clone(), queue: queue.clone() };
    let world = match Kernel::new(records) {
        Ok(world) => world,
        Err(error) => {
            let why = format!("cannot read own memory: {error}");
            recording.set_source("stacks", SourceState::Off(why));
            return;
        }
    };
    let stacks = interpreter::attach(recording, &under_gil);
    let tid = sys::thread::cached_tid();
    let budget_percent = recording.budget_percent();
    let settings = settings(config, budget_percent);
    let sampler = Sampler::new(world, settings, tid, stacks, under_gil);
    let clock = Following::NotYet;
    let mut passes = Passes { recording, queue, config, budget_percent, sampler, triggers, clock };
    recording.store_settings();
    // To begin is not what a pass costs.
    passes.sampler.book(0);
    passes.make();
    passes.end();
}

/// What the thread holds.
struct Passes<'s, W: World> {
    recording: &'s Recording,
    queue: Arc<Queue>,
    /// The settings as of the last pass.
    config: &'static Config,
    budget_percent: f64,
    sampler: Sampler<W>,
    triggers: Triggers,
    clock: Following,
}

impl<W: World> Passes<'_, W> {
    /// Makes them until recording stops.
    fn make(&mut self) {
        let mut next_ns = sys::clock::now_ns();
        while !self.recording.stopping() {
            if sys::reserve::ran_out() {
                recorder::pause();
                self.recording.set_source("memory", SourceState::off(RAN_OUT));
                break;
            }
            self.follow_clock();
            self.follow_settings();
            if !recorder::is_on() {
                self.idle();
                next_ns = sys::clock::now_ns();
                continue;
            }
            let now = sys::clock::now_ns();
            self.sampler.beat(next_ns, now);
            self.pass(now);
            next_ns = self.next(next_ns);
            self.pause(next_ns);
        }
    }

    /// Sleeps until the next pass. A burst of records may need more of the box before: a writer
    /// that takes one of its last blocks ends the sleep, and `dashcam-capture` adds a step.
    fn pause(&self, next_ns: u64) {
        let rest = |now: u64| Duration::from_nanos(next_ns.saturating_sub(now));
        let nap = self.recording.recorder.region().pass_nap();
        let is_short = || self.recording.is_short(sys::clock::now_ns());
        while nap.sleep_unless(rest(sys::clock::now_ns()), is_short) {
            let now = sys::clock::now_ns();
            if !self.recording.is_short(now) {
                // No step can be taken, or none is worth it: each writer would end each sleep.
                return sys::thread::pause_for(rest(now));
            }
            self.queue.notify();
            sys::thread::pause_for(rest(now).min(STEP_TIME));
        }
    }

    fn pass(&mut self, now: u64) {
        self.sampler.pass(now);
        self.triggers.check(now, self.sampler.open());
        self.recording.recorder.record_twice();
        if self.recording.is_short(now) {
            self.queue.notify();
        }
        self.answer_flush();
        self.sampler.end_pass();
    }

    /// When the next pass is made. A nap is slept here, since a request's begin ends it.
    fn next(&mut self, planned_ns: u64) -> u64 {
        match self.sampler.next(planned_ns) {
            Next::At(next_ns) => next_ns,
            Next::Nap { until_ns, period_ns } => {
                let nap_ns = until_ns.saturating_sub(sys::clock::now_ns());
                let nap = self.recording.recorder.nap();
                if !nap.sleep_unless(Duration::from_nanos(nap_ns), || self.is_wanted()) {
                    return until_ns;
                }
                // Woken at last: the process may have been stopped while the sampler slept.
                let woken_ns = sys::clock::now_ns();
                self.sampler.beat(until_ns, woken_ns);
                woken_ns + period_ns
            }
        }
    }

    /// Whether there is work since the last pass, whose end the nap is to be.
    fn is_wanted(&self) -> bool {
        let recording = self.recording;
        recording.recorder.open_requests().begun() != self.sampler.begun()
            || recording.is_short(sys::clock::now_ns())
            || recording.stopping()
            || self.queue.wants_flush()
    }

    /// Takes over settings that were changed meanwhile.
    fn follow_settings(&mut self) {
        let (config, budget_percent) = (self.recording.config(), self.recording.budget_percent());
        let is_same = std::ptr::eq(config, self.config);
        if !is_same || budget_percent != self.budget_percent {
            self.sampler.follow(settings(config, budget_percent));
            self.budget_percent = budget_percent;
        }
        if !is_same {
            self.triggers.follow(config);
            self.config = config;
        }
    }

    /// Nothing is recorded: keeps what must not pile up, and lets captures be made.
    fn idle(&mut self) {
        self.sampler.idle();
        self.triggers.wishes();
        self.answer_flush();
        sys::thread::pause_for(IDLE);
    }

    /// Keeps the fast clock near the kernel's, and says so when its way of reading changes.
    fn follow_clock(&mut self) {
        sys::clock::follow();
        let state = sys::clock::state();
        if state == self.clock {
            return;
        }
        self.clock = state;
        self.recording.set_source(
            "fast_clock",
            match state {
                Following::Counter => SourceState::On,
                Following::NotYet => SourceState::off("not measured yet"),
                Following::Kernel(why) => {
                    SourceState::off(format_args!("{why}; times are exact, reading them is slower"))
                }
            },
        );
        self.recording.store_settings();
    }

    /// Writes what threads are doing at this instant, before a copy of the ring.
    fn answer_flush(&mut self) {
        self.queue.answer_flush(|| self.sampler.write_open_states());
    }

    /// The end: captures that are due are made now.
    fn end(&mut self) {
        self.sampler.idle();
        // Of requests that ended since the last pass.
        self.triggers.check(sys::clock::now_ns(), &[]);
        self.triggers.last_words();
        self.answer_flush();
    }
}
