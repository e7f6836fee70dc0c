//! A pass of the sampler, in the simulated world.
//!
//! How it works: the sampler is a thread like others. A pass is planned at its begin; between two
//! samples the sampler uses CPU time, so that each thread is seen as it is at that instant, and a
//! sampler without a CPU samples nothing and is late.

use format::record::{flag, Sample, TARGET_IS_NAME};
use format::usage::Usage;
use format::wait::{HolderSource, WaitKind};
use sampler::policy::budget::{Need, PaidBy};
use sampler::policy::overdue::is_near_its_limit;
use sampler::policy::schedule::late_ns;
use sampler::policy::tracks::{carry_over, Reading};
use sys::task::Schedstat;

use super::sampler::Instant;
use crate::engine::actor::{Cpu, Effect, Micro, On, State, Tid, Wait};
use crate::engine::log::stack_of;
use crate::engine::{Actor, World};
use crate::program::{Outside, Thing, MS, SECOND, US};

/// What it costs in a pass to read a switch record, and to sample a thread.
const RECORD_NS: u64 = 400;
const SAMPLE_NS: (u64, u64) = (12 * US, 32 * US);

/// The lock that a Condition makes for each wait is mostly at the address of the one before: so
/// many wake-ups of a thread have one.
const ALLOCATED_AGAIN: u64 = 16;

impl<'p> World<'p> {
    /// The sampler's wait for its next pass, and that.
    pub(crate) fn rest_of_sampler(&mut self) -> Vec<Micro<'p>> {
        let pause = self.sampler.pause_ns(self.now);
        let (on, kind, until) = (On::Rest, WaitKind::Sleep, Some(pause));
        let wait = Wait { on, kind, until, limited: true, limit_ns: 0, target: None };
        let drain = RECORD_NS * std::mem::take(&mut self.sampler.drained);
        let left = self.sampler.pass_ns + drain.min(MS);
        vec![Micro::Sleep(wait), Micro::Do(Effect::Pass), Micro::Cpu { left, how: Cpu::Free }]
    }

    /// A pass begins: what it does is planned.
    pub(crate) fn pass(&mut self, tid: Tid) {
        let now = self.now;
        self.beat(tid);
        self.sampler.drain();
        self.find_urgent();
        self.sampler.follow_list(now);
        let open = self.requests.iter().rev().take(64).any(|r| r.end_ns.is_none());
        let inside = |other: &Tid| *other != tid && self.threads[*other].is_inside();
        let others = (0..self.threads.len()).filter(inside);
        let others_ns = others.map(|other| self.clock_of(other)).sum();
        self.sampler.follow_work(now, open, others_ns);
        self.sampler.pay(now);
        let next = match self.sampler.paid_by {
            PaidBy::Nothing => Effect::PassEnds,
            PaidBy::Bucket | PaidBy::Trickle => {
                self.choose_threads();
                Effect::Turn
            }
        };
        self.threads[tid].body.micros.push_back(Micro::Do(next));
    }

    /// Vitals once a second, and how late the sampler is.
    fn beat(&mut self, tid: Tid) {
        let now = self.now;
        let late = late_ns(self.sampler.next_ns, now);
        let (read_ns, delay_before, throttled_before) = self.sampler.vitals;
        if late.is_none() && now - read_ns < SECOND {
            return;
        }
        let delay = self.threads[tid].used.run_delay_ns;
        self.recorder.vital("cgroup_throttled_ns", self.throttled_ns, now);
        self.sampler.vitals = (now, delay, self.throttled_ns);
        if let Some(late) = late {
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
            self.sampler.is_overdue(self.now.saturating_sub(r.known_ns), limit)
        };
        open.filter(|(_, r)| is_open(r) && late(r)).map(|(index, _)| index).collect()
    }

    fn find_urgent(&mut self) {
        self.sampler.urgent.clear();
        self.sampler.need = Need::Usual;
        for index in self.overdue() {
            let request = &self.requests[index];
            let open_ns = self.now.saturating_sub(request.begin_ns);
            let near = is_near_its_limit(open_ns, self.program.slow_ns);
            if !self.sampler.exact || near {
                self.sampler.need = Need::Slow;
            }
            let of = std::iter::once(request.tid).chain(request.helpers.iter().copied());
            for tid in of.map(|tid| self.threads[tid].id) {
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

    /// The thread of that kernel id.
    fn thread_by_id(&self, id: u32) -> Option<Tid> {
        // Ids are given out in the order of birth.
        let tid = id.checked_sub(super::SAMPLER)? as Tid;
        self.threads.get(tid).filter(|thread| thread.id == id).map(|_| tid)
    }

    /// The threads that this pass samples, in order.
    fn choose_threads(&mut self) {
        let now = self.now;
        let (mut rest, mut again) = (Vec::new(), Vec::new());
        if self.sampler.exact {
            rest.extend(self.sampler.tracks.with_news());
        } else {
            let mut tracks = std::mem::take(&mut self.sampler.tracks);
            let clock = |id| self.thread_by_id(id).map(|tid| self.clock_of(tid));
            let repeat = |sample: &Sample| again.push(*sample);
            tracks.ask_some(&self.sampler.urgent, now, clock, &mut rest, repeat);
            self.sampler.tracks = tracks;
        }
        again.iter().for_each(|sample| self.write_sample(sample));
        self.sampler.choose(now, &mut rest);
    }

    fn write_sample(&mut self, sample: &Sample) {
        self.recorder.sample(sample);
    }

    /// Samples the next thread of the pass; the pass ends where there is none.
    pub(crate) fn turn(&mut self, sampler: Tid) {
        let at = Instant { now_ns: self.now, cpu_ns: self.clock_of(sampler) };
        let Some(turn) = self.sampler.next_turn(at) else {
            let micros = &mut self.threads[sampler].body.micros;
            return micros.push_front(Micro::Do(Effect::PassEnds));
        };
        if let Some(sample) = self.sample(turn.tid, turn.close) {
            self.write_sample(&sample);
            self.sampler.sampled(&sample);
        }
        let left = self.threads[sampler].random.between(SAMPLE_NS.0, SAMPLE_NS.1);
        let micros = &mut self.threads[sampler].body.micros;
        micros.push_front(Micro::Do(Effect::Turn));
        micros.push_front(Micro::Cpu { left, how: Cpu::Free });
    }

    /// A sample of a thread, as the sampler makes it; None: nothing new, or it has ended.
    fn sample(&mut self, id: u32, close: bool) -> Option<Sample> {
        let (now, exact) = (self.now, self.sampler.exact);
        if !self.sampler.tracks.is_worth(id, now, (close, exact)) {
            return None;
        }
        let tid = self.thread_by_id(id)?;
        if matches!(self.threads[tid].state, State::Gone) {
            self.sampler.tracks.stale = true;
            self.sampler.tracks.forget(id);
            return None;
        }
        let blocked = match &self.threads[tid].state {
            State::Blocked(wait) => Some(wait.clone()),
            _ => None,
        };
        let used = self.threads[tid].used;
        let times = Schedstat {
            run_ns: self.clock_of(tid),
            run_delay_ns: used.run_delay_ns,
            slices: used.slices,
        };
        let (clock_ns, times) = (Some(times.run_ns), Some(times));
        let reading = Reading { t_ns: now, clock_ns, times, blocked: blocked.is_some() };
        let begun = self.sampler.tracks.begin(id, exact, reading)?;
        let mut sample = Sample { wait: WaitKind::Running, ..begun.sample };
        if let Some(wait) = &blocked {
            self.describe(tid, wait, close, &mut sample);
        }
        match begun.carry.filter(|last| last.wait == sample.wait) {
            Some(last) => carry_over(&last, &mut sample),
            None => self.read_stack(tid, &mut sample),
        }
        if close && sample.wait == WaitKind::Running {
            self.read_usage(tid, &mut sample);
        }
        let waits = blocked.filter(|_| close && sample.wait == WaitKind::Futex);
        if let Some(wait) = waits {
            self.find_holder(tid, &wait, &mut sample);
            self.sampler.tracks.holder_asked(id, now);
        }
        self.sampler.tracks.keep(sample);
        Some(sample)
    }

    /// The system call of a blocked thread.
    fn describe(&self, tid: Tid, wait: &Wait, close: bool, sample: &mut Sample) {
        sample.wait = wait.kind;
        if wait.limited {
            let until = match wait.limit_ns {
                0 => wait.until,
                limit_ns => Some(self.threads[tid].since + limit_ns),
            };
            sample.timeout_ns = until.map_or(1, |until| until.saturating_sub(self.now).max(2));
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
            _ => {
                0x7f20_0000_0000
                    + tid as u64 * 65_536
                    + self.threads[tid].epoch / ALLOCATED_AGAIN % 512 * 64
            }
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
        let thread = &self.threads[tid];
        let used = &thread.used;
        // What it has run since it was last charged counts where it will: neither time goes back.
        let since_ns = match thread.state {
            State::Running(_) if thread.body.is_in_kernel() => self.running_ns(tid),
            _ => 0,
        };
        let system_ns = used.system_ns + since_ns;
        let step = |ns: u64| (ns / US / TICK_US * TICK_US) as u32;
        let usage = Usage {
            faults: used.faults as u32,
            storage_kib: used.storage_kib as u32,
            user_us: step(self.clock_of(tid).saturating_sub(system_ns)),
            system_us: step(system_ns),
        };
        (sample.target, sample.timeout_ns) = usage.pack();
        sample.flags |= flag::USAGE;
    }

    /// The resource behind a futex, and its holder, as far as the interpreter shows it.
    fn find_holder(&self, tid: Tid, wait: &Wait, sample: &mut Sample) {
        match wait.on {
            On::Lock(thing) if self.shows_no_holder(thing) => (),
            On::Lock(thing) => {
                sample.lock = object_of(thing);
                let state = &self.things[thing];
                let Some(Actor::Thread(owner)) = state.owner.filter(|o| *o != Actor::Thread(tid))
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

    /// A lock of C code.
    fn shows_no_holder(&self, thing: usize) -> bool {
        matches!(self.program.things[thing], Thing::Hidden | Thing::ReadWrite)
    }

    /// The rest of a pass: tasks, the account, the plan for the next one.
    pub(crate) fn pass_ends(&mut self, tid: Tid) {
        if self.sampler.paid_by != PaidBy::Nothing {
            self.look_at_tasks();
        }
        let spent = self.clock_of(tid) - self.sampler.booked_ns;
        self.sampler.booked_ns += spent;
        self.sampler.budget.spend(spent, self.now, self.sampler.paid_by);
    }
}

/// The address of a shared thing.
fn object_of(thing: usize) -> u64 {
    0x7f10_0000_0000 + thing as u64 * 4096
}
