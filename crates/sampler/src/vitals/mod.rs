//! The sampler's pulse: once a second the vitals, and the delay whenever it wakes up late.
//!
//! | reads | emits | unit | how often |
//! | --- | --- | --- | --- |
//! | counters of process and host (`sys::vitals`) | vitals | in the name | once a second |
//! | its own wake-ups | `recorder_gap_ns` | ns | when late by 50 ms |
//! | its run delay | `recorder_run_delay_ns` | ns | when late by 50 ms |
//! | its throttling | `recorder_throttled_ns` | ns | when late by 50 ms |

mod missing;

use crate::policy::schedule::late_ns;
use crate::vitals::missing::Lacking;
use crate::world::{Proc, Sink, ThreadFiles, VitalSigns};
use format::record::{header, Kind};
use format::region::losses;

const SECOND_NS: u64 = 1_000_000_000;

/// What is read and reported.
pub(crate) struct Pulse<V> {
    /// The sampler's thread.
    tid: u32,
    vitals: V,
    lacking: Lacking,
    names: Vec<(&'static str, ring::Name)>,
    read_ns: u64,
    throttled_ns: f64,
    own_delay_ns: u64,
    /// What was reported of our descriptors.
    descriptors: sys::ours::Counts,
}

impl<V: VitalSigns> Pulse<V> {
    /// Of the thread `tid`.
    pub(crate) fn new<W: Proc<Vitals = V> + Sink>(world: &W, tid: u32) -> Pulse<V> {
        let vitals = world.open_vitals();
        Pulse {
            tid,
            lacking: Lacking::new(world, &vitals),
            vitals,
            names: Vec::new(),
            read_ns: 0,
            throttled_ns: 0.0,
            own_delay_ns: 0,
            descriptors: sys::ours::counts(),
        }
    }

    /// Whether the vitals are to be read.
    pub(crate) fn is_due(&self, now: u64) -> bool {
        now.saturating_sub(self.read_ns) >= SECOND_NS
    }

    /// Closes what can be opened for each read.
    pub(crate) fn give_back(&mut self) {
        self.vitals.give_back();
    }

    /// Where the kernel does not show each pass how many descriptors are open, they are counted
    /// here.
    fn mind_descriptors(&mut self, world: &(impl Proc + Sink)) {
        world.note_descriptors(|| self.vitals.open_descriptors());
        let counts = sys::ours::counts();
        let before = std::mem::replace(&mut self.descriptors, counts);
        for (loss, now, before) in [
            (losses::DESCRIPTORS_REFUSED, counts.refused, before.refused),
            (losses::DESCRIPTORS_GIVEN_BACK, counts.given_back, before.given_back),
            (losses::DESCRIPTORS_CLOSED, counts.closed_by_host, before.closed_by_host),
        ] {
            world.lose(loss, now.saturating_sub(before));
        }
    }

    /// Reads and records the vitals.
    pub(crate) fn read(&mut self, world: &(impl Proc<Vitals = V> + Sink), now: u64) {
        self.read_ns = now;
        self.mind_descriptors(world);
        let (names, tables) = (&mut self.names, world.recorder().tables());
        let throttled = &mut self.throttled_ns;
        self.vitals.read(|name, value| {
            let known = names.iter().find(|(n, _)| *n == name).map(|(_, id)| *id);
            let id = known.unwrap_or_else(|| {
                let id = tables.name(name);
                names.push((name, id));
                id
            });
            if name == "cgroup_throttled_ns" {
                *throttled = value;
            }
            append_vital(world, id, now, value);
        });
        self.lacking.follow(world, &self.vitals);
        self.own_delay_ns = self.own_delay(world).unwrap_or(self.own_delay_ns);
    }

    fn own_delay(&self, proc: &impl Proc) -> Option<u64> {
        let mut files = proc.open(self.tid).ok()?;
        files.schedstat().ok().map(|s| s.run_delay_ns)
    }

    /// Notes a late wake-up: proof that this thread, which waits for no other, could not run.
    /// Whether it was late, and the vitals were read.
    pub(crate) fn beat<W>(&mut self, world: &W, planned_ns: u64, now: u64) -> bool
    where
        W: Proc<Vitals = V> + Sink,
    {
        let Some(late_ns) = late_ns(planned_ns, now) else { return false };
        let (delay_before, throttled_before) = (self.own_delay_ns, self.throttled_ns);
        self.read(world, now);
        let tables = world.recorder().tables();
        let delay_ns = self.own_delay_ns.saturating_sub(delay_before);
        for (name, value) in [
            ("recorder_gap_ns", late_ns as f64),
            ("recorder_gap_run_delay_ns", delay_ns as f64),
            ("recorder_gap_throttled_ns", self.throttled_ns - throttled_before),
        ] {
            // Twice: this record alone shows that the whole process was stopped, and one copy may
            // be torn or lost.
            append_vital(world, tables.name(name), now, value);
            append_vital(world, tables.name(name), now, value);
        }
        true
    }
}

/// Appends a value of a vital.
pub(crate) fn append_vital(sink: &impl Sink, name: ring::Name, now: u64, value: f64) {
    sink.append(&[header(Kind::Vital, 3, 0, name), now, value.to_bits()], now);
}
