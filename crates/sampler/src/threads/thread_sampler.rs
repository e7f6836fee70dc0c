//! Sampling one thread: where it is, what it waits for, what is in its way.

use std::collections::HashMap;
use std::sync::Arc;

use format::record::{flag, Sample, TARGET_IS_NAME};
use format::region::losses;
use format::usage::Usage;
use format::wait::{HolderSource, WaitKind};
use recorder::Recorder;
use samplers::python_stacks::{CodeId, Frame, HowKnown, PyThread, PythonStacks};
use sys::calls::{self, Wait};
use sys::task::{Schedstat, TaskCall};

use crate::policy::tracks::{carry_over, Begun, Reading, Tracks};
use crate::threads::files::OpenFiles;
use crate::threads::native::Native;
use crate::threads::poll_sets::{by_process, Sets};
use crate::threads::task_names::TaskNames;
use crate::threads::wait_names::{child, locked_file, receiver, wait_kind};
use crate::under_gil::UnderGil;
use crate::world::{Proc, ThreadFiles, World};

/// Most frames of a stack.
const MOST_FRAMES: usize = 512;
/// Distinct stacks whose ids are remembered; beyond, the memory is emptied.
const MOST_STACKS: usize = 16 * 1024;

/// Samples threads: turns what it reads into samples.
pub(crate) struct ThreadSampler<F> {
    recorder: &'static Recorder,
    pub files: OpenFiles<F>,
    pub stacks: Option<PythonStacks>,
    /// Stacks that the interpreter handed in, where there is no reader.
    under_gil: Arc<UnderGil>,
    frames: Vec<Frame>,
    /// The recorder's id of each code object.
    codes: Vec<u32>,
    /// The recorder's id of each stack seen, by a hash of its frames.
    known: HashMap<u64, u32>,
    torn_counted: u64,
    unsettled_counted: u64,
    task_names: TaskNames,
    sets: Sets,
    pub native: Native,
}

impl<F: ThreadFiles> ThreadSampler<F> {
    pub(crate) fn new(
        recorder: &'static Recorder,
        stacks: Option<PythonStacks>,
        under_gil: Arc<UnderGil>,
        native: Native,
    ) -> ThreadSampler<F> {
        ThreadSampler {
            files: OpenFiles::default(),
            recorder,
            stacks,
            under_gil,
            frames: Vec::new(),
            codes: Vec::new(),
            known: HashMap::new(),
            torn_counted: 0,
            unsettled_counted: 0,
            task_names: TaskNames::default(),
            sets: Sets::default(),
            native,
        }
    }

    /// Begins a pass.
    pub(crate) fn begin_pass(&mut self, now: u64) {
        self.native.begin_pass(now);
        if let Some(stacks) = &mut self.stacks {
            stacks.begin_pass();
        }
    }

    /// Counts the stacks torn, or not settled, since the last call.
    pub(crate) fn count_torn(&mut self) {
        let Some(stacks) = &self.stacks else { return };
        let (torn, unsettled) = (stacks.counters().torn_stacks, stacks.counters().unsettled_stacks);
        let region = self.recorder.region();
        region.lose(losses::STACKS_TORN, torn - self.torn_counted);
        region.lose(losses::STACKS_UNSETTLED, unsettled - self.unsettled_counted);
        (self.torn_counted, self.unsettled_counted) = (torn, unsettled);
    }

    /// Samples `tid`. `close`: it matters (a request past its usual time, or a thread in its way),
    /// so peers and holders are looked up too. `exact`: switch records show whether it ran. None:
    /// nothing new to say, or the thread is gone.
    pub(crate) fn sample(
        &mut self,
        world: &impl World<Files = F>,
        tracks: &mut Tracks,
        python: &[PyThread],
        tid: u32,
        close: bool,
        exact: bool,
    ) -> Option<Sample> {
        let now = world.now_ns();
        if !tracks.is_worth(tid, now, (close, exact)) {
            return None;
        }
        // Before all that is read of it.
        let clock_ns = world.cpu_ns(tid);
        let files = match self.files.of(world, tid) {
            Ok(files) => files,
            Err(error) => {
                // Without a descriptor left nothing is known of the thread.
                tracks.stale |= !sys::ours::is_shortage(&error);
                return None;
            }
        };
        let (times, call) = (files.schedstat(), files.call());
        let ended = sys::task::has_ended(&times) || sys::task::has_ended(&call);
        tracks.stale |= ended;
        let py = tracks.get(tid)?.python;
        // Of a thread without Python, what was seen of it while it ran is recorded, if anything
        // was.
        if ended && py.is_some() {
            // Its Python state may be another thread's by now.
            self.forget(tracks, tid);
            return None;
        }
        // Of a running thread the file shows its CPU time as of the scheduler's last tick.
        let exact_ns =
            |file: Schedstat| Schedstat { run_ns: clock_ns.unwrap_or(file.run_ns), ..file };
        let times = times.ok().map(exact_ns);
        let call = call.unwrap_or(TaskCall::Running);
        let blocked = call != TaskCall::Running;
        let begun = tracks.begin(tid, exact, Reading { t_ns: now, clock_ns, times, blocked })?;
        let mut sample = begun.sample;
        let described = self.describe(world, &call, (py, close), &begun, &mut sample);
        if ended && sample.t_ns == now {
            // Nothing was seen of it before its end, so there is nothing to report of this instant.
            self.forget(tracks, tid);
            return None;
        }
        if !described {
            tracks.put_back(&begun);
            return None;
        }
        if close && sample.wait == WaitKind::Running {
            self.read_usage(world, &mut sample);
        }
        if close && sample.wait == WaitKind::Futex {
            self.find_holder(world, tracks, python, (py, &call), &mut sample);
        }
        tracks.keep(sample);
        Some(sample)
    }

    /// What the thread waits for, and where it is. False: there is nothing to report yet.
    fn describe(
        &mut self,
        world: &impl World,
        call: &TaskCall,
        (py, close): (Option<PyThread>, bool),
        begun: &Begun,
        sample: &mut Sample,
    ) -> bool {
        let by_gil = self.stacks.is_none() && self.under_gil.knows(sample.tid);
        self.describe_wait(world, call, close, begun.carry, sample);
        match begun.carry {
            Some(last) if last.wait == sample.wait && !(by_gil && last.stack == 0) => {
                carry_over(&last, sample)
            }
            _ if by_gil => self.take_stack(begun.there_since_ns, sample),
            _ => self.read_stack(py, sample),
        }
        let is_python = py.is_some() || by_gil;
        self.sample_native(world, call, (is_python, close), (begun.since_ns, begun.last), sample)
    }

    /// The thread has ended.
    fn forget(&mut self, tracks: &mut Tracks, tid: u32) {
        tracks.forget(tid);
        self.files.forget(tid);
    }

    /// Adds the native part of the stack: the whole of it for a thread without Python; for a thread
    /// with Python what its code called, if it is in a slow request's way. `before`: time and
    /// content of its sample before. False: there is nothing to report yet.
    fn sample_native(
        &mut self,
        world: &impl World,
        call: &TaskCall,
        (python, close): (bool, bool),
        (since_ns, last): (u64, Option<Sample>),
        sample: &mut Sample,
    ) -> bool {
        let reused = sample.flags & flag::REUSED != 0;
        let inside = python && close && !reused && sample.stack != 0;
        if !python && sample.stack == 0 || inside && sample.wait != WaitKind::Gil {
            self.native.sample_blocked(self.recorder, world.memory(), call, close, sample);
        }
        // Between two samples in the same Python code it was there as well.
        let same = last.is_some_and(|last| last.stack == sample.stack);
        if python && !(same && sample.stack != 0) {
            return true;
        }
        let how = (close, python);
        self.native.sample_running(world, since_ns, how, sample)
    }

    /// `carry`: its last sample, if it did not move since.
    fn describe_wait(
        &mut self,
        proc: &impl Proc,
        call: &TaskCall,
        close: bool,
        carry: Option<Sample>,
        sample: &mut Sample,
    ) {
        let wait = proc.wait(call);
        sample.wait = wait_kind(&wait);
        if let TaskCall::Syscall { nr, .. } = call {
            sample.call = *nr as u16;
        }
        sample.timeout_ns = wait.timeout_ns.unwrap_or(u64::from(wait.timed));
        if let Some(address) = wait.futex {
            sample.target = address & !TARGET_IS_NAME;
            let gil = match &self.stacks {
                Some(stacks) => stacks.is_gil_futex(address),
                None => self.under_gil.is_own_futex(address),
            };
            if gil {
                sample.wait = WaitKind::Gil;
            }
        }
        if sample.wait == WaitKind::Gil {
            sample.gil_holder =
                self.stacks.as_mut().and_then(PythonStacks::gil_holder).unwrap_or(0);
        }
        // The polled set does not change during the wait, so the cost of naming it is not paid
        // twice.
        let polls = |s: Sample| s.wait == WaitKind::Poll && s.target & TARGET_IS_NAME != 0;
        let named = carry.is_some_and(polls) && self.sets.is_recorded(sample.tid);
        if close && !(named && sample.wait == WaitKind::Poll) {
            self.name_target(proc, call, &wait, sample);
        }
    }

    /// The peer or path behind the descriptor, as a name id.
    fn name_target(&mut self, proc: &impl Proc, call: &TaskCall, wait: &Wait, sample: &mut Sample) {
        let mem = proc.memory();
        let text = match (sample.wait, wait.fd) {
            (WaitKind::Connect, _) => {
                let to = calls::connect_target(call, mem).map(|to| format!("tcp {to}"));
                to.or_else(|| wait.fd.and_then(sys::fds::describe).map(|info| info.text))
            }
            (WaitKind::FileLock, Some(fd)) => locked_file(call, fd),
            (WaitKind::ChildWait, _) => child(call, sample.tid),
            (WaitKind::FileOpen, fd) => calls::path(call, mem)
                .or_else(|| fd.and_then(sys::fds::describe).map(|info| info.text)),
            (WaitKind::Poll, _) => self.sets.target(wait, sample.tid, sample.t_ns),
            (WaitKind::PipeRead | WaitKind::PipeWrite, Some(fd)) => {
                let writes = sample.wait == WaitKind::PipeWrite;
                sys::fds::describe(fd).map(|info| by_process(fd, &info, sample.tid, writes))
            }
            (WaitKind::SocketWrite, Some(fd)) => {
                sys::fds::describe(fd).map(|info| receiver(&info, calls::sent_to(call, mem)))
            }
            (_, Some(fd)) => sys::fds::describe(fd).map(|info| info.text),
            (WaitKind::Other, None) => calls::name(sample.call.into()).map(str::to_owned),
            _ => None,
        };
        if let Some(text) = text {
            sample.target = TARGET_IS_NAME | u64::from(self.target(&text));
        }
    }

    /// The name id of a peer or path.
    pub(crate) fn target(&self, text: &str) -> u32 {
        self.recorder.tables().classed(ring::Class::Target, text)
    }

    /// The recorder's id of a stack that was not read from a thread.
    pub(crate) fn stack_of(&mut self, frames: &[Frame]) -> u32 {
        self.frames.clear();
        self.frames.extend_from_slice(frames);
        self.stack_id()
    }

    fn read_stack(&mut self, py: Option<PyThread>, sample: &mut Sample) {
        let (Some(py), Some(stacks)) = (py, &mut self.stacks) else {
            return;
        };
        let Ok(outcome) = stacks.stack(&py, MOST_FRAMES, &mut self.frames) else {
            return;
        };
        if outcome.truncated {
            sample.flags |= flag::TRUNCATED;
        }
        sample.task = self.task_names.running(self.recorder, stacks);
        sample.stack = self.stack_id();
    }

    /// Takes the stack that was handed in for the thread, if it is still valid.
    fn take_stack(&self, there_since_ns: u64, sample: &mut Sample) {
        if let Some(seen) = self.under_gil.seen(sample.tid, there_since_ns) {
            sample.stack = seen.stack;
            sample.flags |= if seen.truncated { flag::TRUNCATED } else { 0 };
        }
    }

    /// The recorder's id of the stack in `frames` (innermost first).
    fn stack_id(&mut self) -> u32 {
        let hash = fingerprint(&self.frames);
        if let Some(id) = self.known.get(&hash) {
            return *id;
        }
        let mut parent = 0;
        for i in (0..self.frames.len()).rev() {
            let frame = self.frames[i];
            let code = self.code_id(frame.code);
            parent = self.recorder.tables().stack(parent, code, frame.line);
        }
        if self.known.len() >= MOST_STACKS {
            self.known.clear();
        }
        self.known.insert(hash, parent);
        parent
    }

    fn code_id(&mut self, code: CodeId) -> u32 {
        let index = code.0 as usize;
        if let Some(id) = self.codes.get(index).filter(|id| **id != 0) {
            return *id;
        }
        let tables = self.recorder.tables();
        let id = match self.stacks.as_ref().and_then(|s| s.code(code)) {
            Some(info) => {
                let (function, file) = (tables.name(&info.qualname), tables.name(&info.file));
                tables.code(function, file, info.first_line, info.releases)
            }
            None => tables.code(tables.name("?"), tables.name("?"), 0, false),
        };
        if self.codes.len() <= index {
            self.codes.resize(index + 1, 0);
        }
        self.codes[index] = id;
        id
    }

    /// What is waited for at a futex, and its holder: by Python's locks, else by the C library's.
    fn find_holder(
        &mut self,
        proc: &impl Proc,
        tracks: &mut Tracks,
        python: &[PyThread],
        (py, call): (Option<PyThread>, &TaskCall),
        sample: &mut Sample,
    ) {
        let (futex, now) = (sample.target, sample.t_ns);
        let waits = |tid: u32| tracks.waits_in(tid, futex);
        let found = self.stacks.as_mut().zip(py);
        let found = found.and_then(|(stacks, py)| stacks.waited_for(&py, futex, python, &waits));
        match found {
            Some(found) => {
                sample.lock = found.object as u64;
                if let Some(holder) = found.holder {
                    sample.lock_holder = holder.tid;
                    sample.holder_source = match holder.how {
                        HowKnown::OwnerField => HolderSource::OwnerField,
                        HowKnown::WithBlock => HolderSource::WithBlock,
                        HowKnown::Joined => HolderSource::Joined,
                    };
                }
            }
            None => {
                let shared = calls::is_shared_futex(call);
                sample.lock = self.native.lock(self.recorder, proc.memory(), (futex, shared), now);
                let owner = proc.lock_owner(call, futex);
                let owner = owner.filter(|o| *o != sample.tid && tracks.contains(*o));
                if let Some(owner) = owner {
                    sample.lock_holder = owner;
                    sample.holder_source = HolderSource::OwnerField;
                }
            }
        }
        tracks.holder_asked(sample.tid, now);
    }

    /// What a running thread has used so far: whether it computes or keeps the kernel busy.
    fn read_usage(&mut self, proc: &impl Proc<Files = F>, sample: &mut Sample) {
        let files = self.files.of(proc, sample.tid);
        let Ok(used) = files.and_then(ThreadFiles::usage) else { return };
        let packed = Usage {
            faults: used.faults as u32,
            storage_kib: (used.storage_bytes >> 10) as u32,
            user_us: used.user_us as u32,
            system_us: used.system_us as u32,
        };
        (sample.target, sample.timeout_ns) = packed.pack();
        sample.flags |= flag::USAGE;
    }
}

/// 64 bits that distinguish stacks. Nobody gains by making two of them collide, and a hash that
/// withstands such attempts took an eighth of the sampler's time.
fn fingerprint(frames: &[Frame]) -> u64 {
    frames.iter().fold(frames.len() as u64, |hash, frame| {
        let word = u64::from(frame.code.0) << 32 | u64::from(frame.line);
        let mixed = u128::from(hash ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
        (mixed >> 64) as u64 ^ mixed as u64
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_a_million_stacks_have_as_many_fingerprints() {
        let frame = |code, line| Frame { code: CodeId(code), line };
        let mut seen = std::collections::HashSet::new();
        for a in 0..64 {
            for b in 0..64 {
                for c in 0..64 {
                    seen.insert(fingerprint(&[frame(a, b), frame(b, c), frame(7, 1)]));
                }
            }
        }
        assert_eq!(seen.len(), 64 * 64 * 64);
        assert_ne!(fingerprint(&[]), fingerprint(&[frame(0, 0)]));
        assert_ne!(fingerprint(&[frame(1, 2)]), fingerprint(&[frame(2, 1)]));
    }
}
