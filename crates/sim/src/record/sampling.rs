//! A pass of the sampler, in the simulated world.
//!
//! How it works: the sampler is a thread like others. A pass is planned at its begin; between two
//! samples the sampler uses CPU time, so that each thread is seen as it is at that instant, and a
//! sampler without a CPU samples nothing and is late.

use format::record::{flag, Sample, TARGET_IS_NAME};
use format::usage::Usage;
use format::wait::{HolderSource, WaitKind};
use sampler::policy::budget::Look;
use sampler::policy::choice::{choose, Places};

use super::sampler::{Moved, ASK_HOLDER_NS, MOST_THREADS, REPEAT_NS};
use crate::engine::actor::{Cpu, Effect, Micro, On, State, Tid, Wait};
use crate::engine::log::stack_of;
use crate::engine::{Who, World};
use crate::program::{Outside, Thing, MS, SECOND, US};

/// A wake-up later than this is a gap worth a record.
const LATE_NS: u64 = 50 * MS;
/// Threads asked in a pass whether they ran.
const ASKED: usize = 32;
/// What a pass costs, and in it a switch record, a thread that is sampled, a task.
const PASS_NS: u64 = 25 * US;
const RECORD_NS: u64 = 400;
const LOOK_NS: (u64, u64) = (9 * US, 26 * US);

impl<'p> World<'p> {
    /// The sampler's wait for its next pass, and that.
    pub(crate) fn rest_of_sampler(&mut self) -> Vec<Micro<'p>> {
        let pause = self.sampler.pause_ns(self.now);
        let (on, kind, until) = (On::Rest, WaitKind::Sleep, Some(pause));
        let wait = Wait { on, kind, until, limited: true, target: None };
        let drain = RECORD_NS * std::mem::take(&mut self.sampler.drained);
        let left = PASS_NS + drain.min(MS);
        vec![Micro::Sleep(wait), Micro::Do(Effect::Pass), Micro::Cpu { left, how: Cpu::Free }]
    }

    /// A pass begins: what it does is planned.
    pub(crate) fn pass(&mut self, tid: Tid) {
        let now = self.now;
        self.beat(tid);
        self.sampler.drain();
        self.find_urgent();
        if self.sampler.list_is_due(now, &self.sampler.urgent.clone()) {
            self.sampler.listed_ns = now;
            self.sampler.tracks.iter_mut().for_each(|track| track.listed = track.alive);
        }
        let works = self.requests.iter().rev().take(64).any(|r| r.end_ns.is_none())
            || self.sampler.tracks.iter().any(|track| track.news);
        self.sampler.follow_work(works);
        let look = self.sampler.budget.may_look(!self.sampler.urgent.is_empty());
        self.sampler.look = look;
        self.sampler.width.follow(look);
        if look != Look::No {
            let chosen = self.choose_threads();
            for other in chosen {
                let urgent = self.sampler.urgent.contains(&other);
                let left = self.threads[tid].random.between(LOOK_NS.0, LOOK_NS.1);
                let body = &mut self.threads[tid].body;
                body.micros.push_back(Micro::Do(Effect::Look { tid: other, close: urgent }));
                body.micros.push_back(Micro::Cpu { left, how: Cpu::Free });
            }
        }
        self.threads[tid].body.micros.push_back(Micro::Do(Effect::PassEnds));
    }

    /// Vitals once a second, and how late the sampler is.
    fn beat(&mut self, tid: Tid) {
        let now = self.now;
        let late = now.saturating_sub(self.sampler.next_ns);
        let (read_ns, delay_before, throttled_before) = self.sampler.vitals;
        if late < LATE_NS && now - read_ns < SECOND {
            return;
        }
        let delay = self.threads[tid].used.run_delay_ns;
        self.recorder.vital("cgroup_throttled_ns", self.throttled_ns, now);
        self.sampler.vitals = (now, delay, self.throttled_ns);
        if late >= LATE_NS {
            for (name, value) in [
                ("recorder_gap_ns", late),
                ("recorder_gap_run_delay_ns", delay - delay_before),
                ("recorder_gap_throttled_ns", self.throttled_ns - throttled_before),
            ] {
                self.recorder.vital(name, value, now);
                self.recorder.vital(name, value, now);
            }
        }
    }

    pub(super) fn overdue(&self) -> Vec<usize> {
        let limit = self.program.slow_ns;
        let open = self.requests.iter().enumerate();
        let is_open = |r: &crate::engine::Request| r.end_ns.is_none() && r.started_ns > 0;
        let late = |r: &crate::engine::Request| {
            self.sampler.is_overdue(self.now.saturating_sub(r.begin_ns), limit)
        };
        open.filter(|(_, r)| is_open(r) && late(r)).map(|(index, _)| index).collect()
    }

    fn find_urgent(&mut self) {
        self.sampler.urgent.clear();
        for index in self.overdue() {
            let request = &self.requests[index];
            let of = std::iter::once(request.tid).chain(request.helpers.iter().copied());
            for tid in of {
                if !self.sampler.urgent.contains(&tid) {
                    self.sampler.urgent.push(tid);
                }
            }
        }
    }

    /// The CPU clock of a thread, now.
    fn clock_of(&self, tid: Tid) -> u64 {
        let thread = &self.threads[tid];
        match thread.state {
            State::Running(_) => thread.used.cpu_ns + self.running_ns(tid),
            _ => thread.used.cpu_ns,
        }
    }

    /// Whom this pass samples, in order.
    fn choose_threads(&mut self) -> Vec<Tid> {
        let now = self.now;
        let mut rest: Vec<u32> = Vec::new();
        if self.sampler.exact {
            let news = |(tid, t): (usize, &super::sampler::Track)| {
                let has = t.listed && t.alive && (t.news || !t.told) && tid != self.sampler.tid;
                has.then_some(tid as u32)
            };
            rest.extend(self.sampler.tracks.iter().enumerate().filter_map(news));
        } else {
            for tid in self.sampler.asked(ASKED) {
                if self.sampler.urgent.contains(&tid) {
                    continue;
                }
                let clock = self.clock_of(tid);
                match self.sampler.stands(tid, clock, now) {
                    Err(Moved) => rest.push(tid as u32),
                    Ok(Some(sample)) => self.write_sample(&sample),
                    Ok(None) => (),
                }
            }
        }
        let low = self.sampler.budget.is_low();
        let due: Vec<u32> = self.sampler.due(now, low).iter().map(|t| *t as u32).collect();
        let few = self.sampler.width.threads();
        let most = if low { MOST_THREADS.min(due.len() + few) } else { MOST_THREADS };
        let mut chosen = Vec::new();
        choose(&due, &mut rest, most, &mut self.sampler.choice, &mut chosen);
        let chosen: Vec<Tid> = chosen.into_iter().map(|tid| tid as Tid).collect();
        let others = chosen.iter().filter(|tid| !self.sampler.urgent.contains(tid)).count();
        self.sampler.places = Places::new(MOST_THREADS, others);
        self.sampler.seen.clear();
        chosen
    }

    fn write_sample(&mut self, sample: &Sample) {
        let sampler = self.threads[self.sampler.tid].id;
        self.recorder.append(sampler, &sample.encode(), sample.t_ns);
    }

    /// Samples a thread, if there is a place; then whoever is in its way.
    pub(crate) fn look_at(&mut self, sampler: Tid, tid: Tid, close: bool) {
        let urgent = self.sampler.urgent.contains(&tid);
        if !urgent && self.sampler.seen.contains(&tid) {
            return;
        }
        let place = match (urgent, close) {
            (true, _) => self.sampler.places.urgent(),
            (false, true) => self.sampler.places.culprit(),
            (false, false) => self.sampler.places.other(),
        };
        if !place {
            return;
        }
        self.sampler.seen.push(tid);
        let Some(sample) = self.sample(tid, close) else { return };
        self.write_sample(&sample);
        if !urgent {
            return;
        }
        for id in [sample.gil_holder, sample.lock_holder].into_iter().filter(|id| *id != 0) {
            let other = (id - 4000) as Tid;
            let known = self.sampler.urgent.contains(&other) || self.sampler.seen.contains(&other);
            if !known && other != sampler {
                let left = self.threads[sampler].random.between(LOOK_NS.0, LOOK_NS.1);
                let micros = &mut self.threads[sampler].body.micros;
                micros.push_front(Micro::Cpu { left, how: Cpu::Free });
                micros.push_front(Micro::Do(Effect::Look { tid: other, close: true }));
            }
        }
    }

    /// A sample of a thread, as the sampler makes it; None: nothing new, or it has ended.
    fn sample(&mut self, tid: Tid, close: bool) -> Option<Sample> {
        let now = self.now;
        if matches!(self.threads[tid].state, State::Gone) {
            return None;
        }
        let track = self.sampler.tracks[tid].clone();
        let still = self.sampler.exact && !track.news && track.last.is_some();
        let asks = track.last.is_some_and(|s| s.wait == WaitKind::Futex);
        let holder_due = close && asks && now - track.asked_ns >= ASK_HOLDER_NS;
        if still && now - track.sampled_ns < REPEAT_NS && !holder_due {
            return None;
        }
        let blocked = match &self.threads[tid].state {
            State::Blocked(wait) => Some(wait.clone()),
            _ => None,
        };
        let mut times = self.threads[tid].used;
        times.cpu_ns = self.clock_of(tid);
        let mut sample = self.blank(tid, track.sampled_ns);
        let unmoved =
            track.times.is_some_and(|old| (old.slices, old.cpu_ns) == (times.slices, times.cpu_ns));
        if let Some(old) = track.times {
            sample.cpu_ns = times.cpu_ns - old.cpu_ns;
            sample.run_delay_ns = times.run_delay_ns - old.run_delay_ns;
            sample.slices = u16::try_from(times.slices - old.slices).unwrap_or(u16::MAX);
            sample.flags |= flag::TIMES;
        }
        if let Some(wait) = &blocked {
            self.describe(tid, wait, close, &mut sample);
        }
        let carry = track.last.filter(|_| blocked.is_some() && (still || unmoved));
        match carry.filter(|last| last.wait == sample.wait) {
            Some(last) => {
                (sample.stack, sample.task) = (last.stack, last.task);
                sample.flags |= flag::REUSED;
                if sample.target == 0 {
                    sample.target = last.target;
                }
            }
            None => self.read_stack(tid, &mut sample),
        }
        if close && sample.wait == WaitKind::Running {
            self.read_usage(tid, &mut sample);
        }
        let waits = blocked.filter(|_| close && sample.wait == WaitKind::Futex);
        let asked = waits.is_some();
        if let Some(wait) = waits {
            self.find_holder(tid, &wait, &mut sample);
        }
        let track = &mut self.sampler.tracks[tid];
        track.waits_since_ns = match (sample.wait == WaitKind::Running, unmoved) {
            (true, _) => 0,
            (false, true) if track.waits_since_ns != 0 => track.waits_since_ns,
            _ => now,
        };
        track.asked_ns = if asked { now } else { track.asked_ns };
        (track.sampled_ns, track.times, track.clock_ns) = (now, Some(times), times.cpu_ns);
        // One that is on a CPU goes on running behind its sample.
        let runs = sample.wait == WaitKind::Running;
        (track.last, track.told, track.news) = (Some(sample), true, runs);
        Some(sample)
    }

    fn blank(&self, tid: Tid, sampled_ns: u64) -> Sample {
        Sample {
            t_ns: self.now,
            tid: self.threads[tid].id,
            stack: 0,
            flags: 0,
            gil_holder: 0,
            wall_ns: if sampled_ns == 0 { 0 } else { self.now - sampled_ns },
            cpu_ns: 0,
            run_delay_ns: 0,
            wait: WaitKind::Running,
            holder_source: HolderSource::None,
            call: 0,
            lock_holder: 0,
            slices: 0,
            target: 0,
            timeout_ns: 0,
            task: 0,
            lock: 0,
        }
    }

    /// The system call of a blocked thread.
    fn describe(&self, tid: Tid, wait: &Wait, close: bool, sample: &mut Sample) {
        sample.wait = wait.kind;
        if wait.limited {
            sample.timeout_ns = wait.until.map_or(1, |until| until.saturating_sub(self.now).max(2));
        }
        match (wait.kind, wait.target) {
            (WaitKind::Futex, _) => sample.target = self.futex_of(tid, wait.on),
            (WaitKind::Gil, _) => {
                sample.target = 0x0000_5570_0000_1000;
                sample.gil_holder = self.gil.holder.map_or(0, |holder| self.threads[holder].id);
            }
            (_, Some(name)) if close => sample.target = TARGET_IS_NAME | u64::from(name),
            _ => (),
        }
    }

    /// The address waited on: a lock's own, or of the waiter's in a Condition.
    fn futex_of(&self, tid: Tid, on: On) -> u64 {
        match on {
            On::Lock(thing) => object_of(thing) + 16,
            On::Work(thing) => object_of(thing) + 32,
            _ => 0x7f20_0000_0000 + tid as u64 * 65_536 + self.threads[tid].epoch % 512 * 64,
        }
    }

    fn read_stack(&mut self, tid: Tid, sample: &mut Sample) {
        let body = std::mem::take(&mut self.threads[tid].body);
        sample.stack = stack_of(&mut self.recorder.tables, self.program, &body);
        let of_task = self.threads[tid].task.and_then(|_| body.frames.first());
        if let Some(frame) = of_task {
            let name = &self.program.functions[frame.function].name;
            sample.task = self.recorder.tables.name(&format!("{name}()"));
        }
        self.threads[tid].body = body;
    }

    fn read_usage(&self, tid: Tid, sample: &mut Sample) {
        const TICK_US: u64 = 10_000;
        let used = &self.threads[tid].used;
        let step = |ns: u64| (ns / US / TICK_US * TICK_US) as u32;
        let usage = Usage {
            faults: used.faults as u32,
            storage_kib: used.storage_kib as u32,
            user_us: step(self.clock_of(tid).saturating_sub(used.system_ns)),
            system_us: step(used.system_ns),
        };
        (sample.target, sample.timeout_ns) = usage.pack();
        sample.flags |= flag::USAGE;
    }

    /// What is waited for in a futex, and who has it, as far as the interpreter tells.
    fn find_holder(&self, tid: Tid, wait: &Wait, sample: &mut Sample) {
        match wait.on {
            On::Lock(thing) => {
                sample.lock = object_of(thing);
                let state = &self.things[thing];
                let Some(Who::Thread(owner)) = state.owner.filter(|o| *o != Who::Thread(tid))
                else {
                    return;
                };
                let source = match (&self.program.things[thing], state.by_with) {
                    (Thing::RLock, _) => HolderSource::OwnerField,
                    (_, true) => HolderSource::WithBlock,
                    _ => return,
                };
                (sample.lock_holder, sample.holder_source) = (self.threads[owner].id, source);
            }
            On::End(other) => {
                sample.lock = 0x7f30_0000_0000 + other as u64 * 4096;
                sample.lock_holder = self.threads[other].id;
                sample.holder_source = HolderSource::Joined;
            }
            On::Permit(thing)
            | On::Item(thing)
            | On::Room(thing)
            | On::Event(thing)
            | On::Work(thing) => sample.lock = object_of(thing),
            On::Job(job) => sample.lock = 0x7f40_0000_0000 + job as u64 * 4096,
            On::Outside(Outside::Nap) => sample.lock = sample.target & !0xffff,
            _ => (),
        }
    }

    /// The rest of a pass: tasks, the account, the plan for the next one.
    pub(crate) fn pass_ends(&mut self, tid: Tid) {
        if self.sampler.look != Look::No {
            self.look_at_tasks();
        }
        let spent = self.clock_of(tid) - self.sampler.booked_ns;
        self.sampler.booked_ns += spent;
        self.sampler.budget.spend(spent, self.now, self.sampler.look);
    }
}

/// The address of a shared thing.
fn object_of(thing: usize) -> u64 {
    0x7f10_0000_0000 + thing as u64 * 4096
}
