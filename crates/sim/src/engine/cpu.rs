//! CPUs: which threads run, for how long, and which have to wait.
//!
//! How it works: a simplified fair scheduler. Each thread has a fair time that grows while it runs;
//! the ready thread with the least goes first. A thread that wakes is put at most `CREDIT_NS` in
//! front of the others and takes the CPU of one that is further ahead than `GRAIN_NS`; while a
//! thread is ready the CPUs are shared anew each millisecond. A container's quota stops all threads
//! of the process until the next period; so does SIGSTOP.
//!
//! What it promises: a ready thread is never passed over while a CPU is free, and what a thread
//! ran, waited and was ready sums to its life.

use super::actor::{Cpu, Micro, On, State, Tid, Why, PERIOD_NS};
use super::log::Doing;
use super::world::{CpuState, Event, World};
use crate::program::{MS, US};

/// How far in front of the others a thread that slept is put.
const CREDIT_NS: u64 = 3 * MS;
/// A thread that wakes takes the CPU of one that is so far ahead of it.
const GRAIN_NS: u64 = MS;
/// A thread keeps its CPU for so long at least while it shares it.
const SLICE_NS: u64 = 3 * MS;
/// How often it is asked whether CPUs are to be shared.
const SHARE_NS: u64 = MS;
/// With a quota, how often it is asked whether that is used up.
const QUOTA_CHECK_NS: u64 = 2 * MS;

impl World<'_> {
    /// Whether a thread may have a CPU now.
    fn may_run(&self, tid: Tid) -> bool {
        let held = self.throttled_since.is_some() || self.stopped_since.is_some();
        !(held && self.threads[tid].is_inside())
    }

    /// The end of a thread's wait; `by`: the waker.
    pub(super) fn wake(&mut self, tid: Tid, by: Option<Tid>) {
        let stopped = self.stopped_since.is_some();
        let thread = &mut self.threads[tid];
        if !matches!(thread.state, State::Blocked(_)) {
            return;
        }
        thread.woken_by = by;
        if stopped && thread.is_inside() {
            thread.woken_while_stopped = true;
            return;
        }
        self.log_until_now(tid);
        let least = self.least_fair_ns.saturating_sub(CREDIT_NS);
        let thread = &mut self.threads[tid];
        (thread.state, thread.since) = (State::Ready, self.now);
        thread.epoch += 1;
        thread.fair_ns = thread.fair_ns.max(least);
        self.ready.push(tid);
    }

    /// Gives CPUs to ready threads; whether any got one.
    pub(super) fn dispatch(&mut self) -> bool {
        let Some(tid) = self.next_ready() else { return false };
        if let Some(cpu) = self.cpus.iter().position(|cpu| cpu.running.is_none()) {
            self.switch_in(cpu, tid);
            return true;
        }
        if !self.share_due {
            self.share_due = true;
            self.at(self.now + SHARE_NS, Event::Share);
        }
        // One that has just woken may be due at once.
        let woke = self.threads[tid].since == self.now;
        let Some((cpu, fair_ns)) = self.furthest_ahead() else { return false };
        if woke && fair_ns > self.threads[tid].fair_ns + GRAIN_NS {
            self.preempt(cpu);
            self.switch_in(cpu, tid);
            return true;
        }
        false
    }

    fn next_ready(&self) -> Option<Tid> {
        let may = self.ready.iter().filter(|tid| self.may_run(**tid));
        may.min_by_key(|tid| (self.threads[**tid].fair_ns, **tid)).copied()
    }

    /// The CPU whose thread has had most, and how much.
    fn furthest_ahead(&self) -> Option<(usize, u64)> {
        let fair = |(index, cpu): (usize, &CpuState)| {
            let tid = cpu.running?;
            Some((index, self.threads[tid].fair_ns + (self.now - cpu.at)))
        };
        self.cpus.iter().enumerate().filter_map(fair).max_by_key(|(index, ns)| (*ns, *index))
    }

    /// A thread is ready: takes CPUs from threads that had more than it and a whole slice.
    pub(super) fn share(&mut self) {
        self.share_due = false;
        for cpu in 0..self.cpus.len() {
            let Some(next) = self.next_ready() else { break };
            let Some(tid) = self.cpus[cpu].running else { continue };
            let ran_ns = self.now - self.cpus[cpu].since;
            let fair_ns = self.threads[tid].fair_ns + (self.now - self.cpus[cpu].at);
            if ran_ns >= SLICE_NS && fair_ns > self.threads[next].fair_ns {
                self.preempt(cpu);
                self.switch_in(cpu, next);
            }
        }
        if self.next_ready().is_some() && !self.share_due {
            self.share_due = true;
            self.at(self.now + SHARE_NS, Event::Share);
        }
    }

    fn switch_in(&mut self, cpu: usize, tid: Tid) {
        self.log_until_now(tid);
        self.ready.retain(|other| *other != tid);
        let thread = &mut self.threads[tid];
        // The kernel adds a delay up when it is over.
        thread.used.run_delay_ns += self.now - thread.since + thread.owed_delay_ns;
        thread.owed_delay_ns = 0;
        thread.used.slices += 1;
        (thread.state, thread.since) = (State::Running(cpu), self.now);
        let (out, inside, id) = (thread.out, thread.is_inside(), thread.id);
        if inside {
            self.recorder.off_cpu(id, out, self.now, cpu);
            self.sampler.has_run(id);
        }
        let state = &mut self.cpus[cpu];
        (state.running, state.since, state.at) = (Some(tid), self.now, self.now);
        state.epoch += 1;
        self.to_run.push(cpu);
    }

    /// The CPU's thread leaves it; `next`: what it is then.
    pub(super) fn switch_out(&mut self, cpu: usize, next: State, preempted: bool) {
        self.charge(cpu);
        let Some(tid) = self.cpus[cpu].running.take() else { return };
        self.cpus[cpu].epoch += 1;
        let thread = &mut self.threads[tid];
        (thread.out, thread.since) = ((self.now, preempted), self.now);
        if matches!(next, State::Ready) {
            self.ready.push(tid);
        }
        thread.state = next;
    }

    fn preempt(&mut self, cpu: usize) {
        self.switch_out(cpu, State::Ready, true);
    }

    /// Accounts for what the CPU's thread ran up to now.
    pub(super) fn charge(&mut self, cpu: usize) {
        let Some(tid) = self.cpus[cpu].running else { return };
        let ran_ns = self.now - self.cpus[cpu].at;
        self.cpus[cpu].at = self.now;
        if ran_ns == 0 {
            return;
        }
        self.log_until_now(tid);
        let thread = &mut self.threads[tid];
        thread.since = self.now;
        thread.used.cpu_ns += ran_ns;
        thread.fair_ns += ran_ns;
        if thread.body.is_in_kernel() {
            thread.used.system_ns += ran_ns;
        }
        if let Some(Micro::Cpu { left, .. }) = thread.body.micros.front_mut() {
            *left = left.saturating_sub(ran_ns);
        }
        if thread.is_inside() {
            self.quota_used_ns += ran_ns;
        }
        let running = self.cpus.iter().filter_map(|c| c.running);
        let least = running.map(|tid| self.threads[tid].fair_ns).min().unwrap_or(0);
        self.least_fair_ns = self.least_fair_ns.max(least);
    }

    /// The thread on `cpu` needs it for `left`: plans the end of that.
    pub(super) fn burst(&mut self, cpu: usize, tid: Tid, left: u64) {
        let inside = self.threads[tid].is_inside();
        let limited = self.program.host.quota_ns.filter(|_| inside);
        if limited.is_some_and(|quota_ns| self.quota_used_ns >= quota_ns) {
            self.throttle();
            return;
        }
        let length = if limited.is_some() { left.min(QUOTA_CHECK_NS) } else { left };
        self.cpus[cpu].epoch += 1;
        let epoch = self.cpus[cpu].epoch;
        self.at(self.now + length, Event::Burst { cpu, epoch });
    }

    fn throttle(&mut self) {
        if self.throttled_since.is_none() {
            self.throttled_since = Some(self.now);
        }
        for cpu in 0..self.cpus.len() {
            let inside = |tid: Tid| self.threads[tid].is_inside();
            if self.cpus[cpu].running.is_some_and(inside) {
                self.preempt(cpu);
            }
        }
    }

    /// The container may use its quota again.
    pub(super) fn next_period(&mut self) {
        self.quota_used_ns = 0;
        if let Some(since) = self.throttled_since {
            self.log_ready();
            self.throttled_since = None;
            self.throttled_ns += self.now - since;
        }
        self.at(self.now + PERIOD_NS, Event::Period);
    }

    /// SIGSTOP, SIGCONT.
    pub(super) fn stop_or_go_on(&mut self, stops: bool) {
        if stops {
            self.log_ready();
            self.stopped_since = Some(self.now);
            for cpu in 0..self.cpus.len() {
                let inside = |tid: Tid| self.threads[tid].is_inside();
                if self.cpus[cpu].running.is_some_and(inside) {
                    self.switch_out(cpu, State::Ready, false);
                }
            }
            return;
        }
        self.log_ready();
        self.stops.extend(self.stopped_since.take().map(|since| (since, self.now)));
        for tid in 0..self.threads.len() {
            if std::mem::take(&mut self.threads[tid].woken_while_stopped) {
                let by = self.threads[tid].woken_by;
                self.wake(tid, by);
            }
        }
    }

    /// Cuts the log of all ready threads: the reason why they have no CPU changes.
    fn log_ready(&mut self) {
        for tid in 0..self.threads.len() {
            let is_ready = matches!(self.threads[tid].state, State::Ready);
            if is_ready && self.threads[tid].is_inside() {
                self.log_until_now(tid);
                // A thread of a stopped process was not runnable, so the kernel counts no delay.
                if self.stopped_since.is_none() {
                    let since = self.threads[tid].since;
                    self.threads[tid].owed_delay_ns += self.now - since;
                }
                self.threads[tid].since = self.now;
            }
        }
    }

    /// What a thread does now, as its log has it.
    pub(super) fn doing(&self, tid: Tid) -> Doing {
        let thread = &self.threads[tid];
        match &thread.state {
            State::Running(_) => Doing::Run(thread.body.why.unwrap_or(Why::Work)),
            State::Ready if self.stopped_since.is_some() && thread.is_inside() => Doing::Stopped,
            State::Ready if self.throttled_since.is_some() && thread.is_inside() => {
                Doing::Throttled
            }
            State::Ready => Doing::Ready,
            State::Blocked(wait) => Doing::Wait(wait.on),
            State::Gone => Doing::Gone,
        }
    }

    /// A blocked thread's time is over.
    pub(super) fn time_is_over(&mut self, tid: Tid) {
        let State::Blocked(wait) = &self.threads[tid].state else { return };
        match wait.on {
            On::Gil => {
                self.gil.waiters.retain(|other| *other != tid);
                self.gil.timed_out(tid);
            }
            On::Lock(thing)
            | On::Permit(thing)
            | On::Item(thing)
            | On::Room(thing)
            | On::Event(thing) => {
                let own = super::request::Actor::Thread(tid);
                self.things[thing].waiters.retain(|actor| *actor != own);
                self.things[thing].putters.retain(|actor| *actor != own);
            }
            _ => (),
        }
        self.wake(tid, None);
    }

    /// What a system call and a switch cost.
    pub(super) fn call_cost(&mut self, tid: Tid) -> Micro<'static> {
        let left = self.threads[tid].random.between(2 * US, 6 * US);
        Micro::Cpu { left, how: Cpu::Free }
    }
}

impl World<'_> {
    /// How long a thread has run that is not accounted for yet.
    pub(crate) fn running_ns(&self, tid: Tid) -> u64 {
        match self.threads[tid].state {
            State::Running(cpu) => self.now - self.cpus[cpu].at,
            _ => 0,
        }
    }
}
