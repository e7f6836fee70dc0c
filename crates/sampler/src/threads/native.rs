//! Stacks of threads that run native code: of blocked ones as ids of the recorder's tables, of
//! running ones as records of their own, since they seldom repeat.

use std::collections::hash_map::DefaultHasher;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use format::native::Builder;
use format::record::{flag, Sample, TARGET_IS_NAME};
use format::region::code_flag::{GAP_BITS, RUNNING};
use format::region::losses;
use format::source::SourceState;
use format::wait::WaitKind;
use recorder::Recorder;
use ring::Class;
use samplers::native_stacks::{Frame, NativeStacks, FRAME_POINTER, MOST_SITES, NO_SITE};
use sys::mem::Reader;
use sys::own_stack::Registers;
use sys::perf::Seen;
use sys::task::TaskCall;

use crate::settings::TURNED_OFF;
use crate::threads::watches::Running;
use crate::world::{Proc, Sink};

/// Stacks read in one pass, of threads that are in no slow request's way.
const MOST_IDLE: u32 = 2;
/// A thread that runs under a watch is recorded when it was seen, or after this time.
const SILENT_NS: u64 = 30_000_000;
/// A blocked thread that used this much CPU since its sample before is worth a watch.
const MUCH_NS: u64 = 2_000_000;
/// Distinct stacks whose ids are remembered; beyond, the memory is emptied.
const MOST_STACKS: usize = 8 * 1024;
/// Locks shared with other processes whose names are remembered; beyond, the memory is emptied.
const MOST_SHARED: usize = 256;

/// Reads native stacks and interns them. Their stale words differ from stack to stack, so they get
/// half of the tables at most: Python's stacks keep the other half.
pub(crate) struct Native {
    stacks: Option<NativeStacks>,
    state: SourceState<&'static str>,
    frames: Vec<Frame>,
    /// The recorder's id of each site, 0: not asked for yet.
    codes: Vec<u32>,
    known: HashMap<u64, u32>,
    /// Nodes these stacks may still add to the recorder's table.
    nodes_left: usize,
    /// The highest node seen: a higher one is new.
    newest: u32,
    idle_left: u32,
    running: Running,
    /// What watches saw of the thread that is sampled; empty between samples.
    sights: Vec<(u64, Builder)>,
    /// Name ids of the files that running threads were seen in.
    files: Vec<u32>,
    /// Name ids of locks in static memory, by file and place.
    locks: HashMap<(u32, u64), u32>,
    /// Words for locks that other processes may have, by futex.
    shared: HashMap<u64, u64>,
}

impl Native {
    /// `on`: the settings want stacks.
    pub(crate) fn new(recorder: &'static Recorder, on: bool) -> Native {
        let layout = recorder.region().layout();
        let stacks = on.then(|| NativeStacks::new(MOST_SITES.min(layout.code_slots / 2)));
        let running = Running::new(stacks.as_ref().is_some_and(Option::is_some));
        Native {
            running,
            sights: Vec::new(),
            files: Vec::new(),
            locks: HashMap::new(),
            shared: HashMap::new(),
            state: match &stacks {
                None => SourceState::Off(TURNED_OFF),
                Some(None) => SourceState::Off("only stacks of x86-64 are understood"),
                Some(Some(_)) => SourceState::On,
            },
            stacks: stacks.flatten(),
            frames: Vec::new(),
            codes: Vec::new(),
            known: HashMap::new(),
            nodes_left: layout.stack_slots / 2,
            newest: 0,
            idle_left: MOST_IDLE,
        }
    }

    /// The source's state, as captures and `status()` report it.
    pub(crate) fn state(&self) -> SourceState<&'static str> {
        self.state
    }

    /// The state of the source of running threads' stacks.
    pub(crate) fn running_state(&self) -> SourceState {
        self.running.state()
    }

    /// Begins a pass.
    pub(crate) fn begin_pass(&mut self, now: u64) {
        self.idle_left = MOST_IDLE;
        self.running.tidy(now);
    }

    /// There is no pass: the budget is spent.
    pub(crate) fn rest(&mut self) {
        self.running.rest();
    }

    /// Counts what was missed since the last call; returns what watching cost the threads that were
    /// watched, ns.
    pub(crate) fn settle(&mut self, recorder: &Recorder) -> u64 {
        let counts = self.running.take_counts();
        recorder.region().lose(losses::RUNNING_STACKS_LOST, counts.lost);
        recorder.region().lose(losses::THREADS_UNWATCHED, counts.unwatched);
        counts.cost_ns
    }

    /// Records where a thread was seen running since its sample before, at `since_ns`, as samples
    /// at those times. What the thread used goes to them; `sample` becomes the last of them when
    /// the thread still runs. `python`: the thread runs Python, and was in the same Python code at
    /// both samples. False: `sample` has nothing to report yet.
    pub(crate) fn sample_running(
        &mut self,
        world: &(impl Proc + Sink),
        since_ns: u64,
        (close, python): (bool, bool),
        sample: &mut Sample,
    ) -> bool {
        let runs = sample.wait == WaitKind::Running;
        let computes = runs || sample.cpu_ns >= MUCH_NS;
        if self.stacks.is_none() || python && !(runs && close) {
            return true;
        }
        let (tid, now) = (sample.tid, sample.t_ns);
        let (recorder, mem) = (world.recorder(), world.memory());
        let Some(mut asked) = self.running.ask(tid, now, close, computes) else { return true };
        let mut sights = std::mem::take(&mut self.sights);
        while let Some(seen) = self.running.next(&mut asked, since_ns, now) {
            let record = self.sight(recorder, mem, (tid, &seen), python);
            self.running.outcome(&asked, record.is_some(), now);
            sights.extend(record.map(|record| (seen.t_ns, record)));
        }
        let has_sights = !sights.is_empty();
        // Of a thread that runs Python the sample itself shows more than the time of a sight.
        let last = if runs { sights.pop() } else { None };
        append_earlier(world, &mut sights, python, sample);
        if let Some((t_ns, mut record)) = last {
            if !python {
                sample.wall_ns = sample.wall_ns.saturating_sub(now - t_ns);
                sample.t_ns = t_ns;
            }
            world.append(record.finish(sample.t_ns), now);
        }
        sights.clear();
        self.sights = sights;
        has_sights || python || !runs || now.saturating_sub(since_ns) >= SILENT_NS
    }

    /// What a watch saw, as a record; None when that shows no more than the Python stack does.
    fn sight(
        &mut self,
        recorder: &Recorder,
        mem: &Reader,
        (tid, seen): (u32, &Seen),
        python: bool,
    ) -> Option<Builder> {
        let stacks = self.stacks.as_mut()?;
        if python && stacks.in_interpreter(seen.pc, seen.t_ns) {
            return None;
        }
        let outcome = stacks.read_running(mem, seen, &self.running.stack, &mut self.frames);
        recorder.region().lose(losses::CODES_REFUSED, outcome.refused);
        if python && !stacks.has_more(mem, seen.pc, &self.frames) {
            return None;
        }
        Some(self.record(recorder, mem, tid, seen.pc))
    }

    /// The stack of a thread that woke the thread `tid`, as the kernel copied it, as a record of
    /// that wakeup. None where it ran Python: its native stack shows the interpreter's loop.
    pub(crate) fn waker(
        &mut self,
        recorder: &Recorder,
        mem: &Reader,
        tid: u32,
        (seen, stack): (&Seen, &[u8]),
    ) -> Option<Builder> {
        let stacks = self.stacks.as_mut()?;
        let outcome = stacks.read_running(mem, seen, stack, &mut self.frames);
        recorder.region().lose(losses::CODES_REFUSED, outcome.refused);
        if stacks.pass_interpreter(&self.frames) {
            return None;
        }
        Some(self.record(recorder, mem, tid, seen.pc))
    }

    /// The stack in `frames`, of a thread that ran at `pc`, as a record of `tid`.
    fn record(&mut self, recorder: &Recorder, mem: &Reader, tid: u32, pc: u64) -> Builder {
        let place = self.stacks.as_mut().and_then(|stacks| stacks.place(mem, pc));
        let file = place.map_or(0, |(file, _)| self.file_id(recorder, file));
        let mut record = Builder::new(tid, file, place.map_or(0, |(_, offset)| offset));
        for i in 0..self.frames.len() {
            let Frame { site, .. } = self.frames[i];
            let line = line_of(&self.frames[i]);
            // There is room for more words than a stack has frames.
            let _ = match i {
                0 => record.push(0, line | RUNNING),
                _ => record.push(self.code_id(recorder, site), line),
            };
        }
        record
    }

    /// The name id of a file of code.
    fn file_id(&mut self, recorder: &Recorder, file: u32) -> u32 {
        let index = file as usize;
        if let Some(id) = self.files.get(index).filter(|id| **id != 0) {
            return *id;
        }
        let text = self.stacks.as_ref().and_then(|stacks| stacks.text(file)).unwrap_or("?");
        let id = recorder.tables().name(text);
        if self.files.len() <= index {
            self.files.resize(index + 1, 0);
        }
        self.files[index] = id;
        id
    }

    /// Puts the stack of a thread that is blocked in `call` into `sample`, inside the Python stack
    /// that is there. Leaves it alone when the thread is on a CPU, when it does not matter
    /// (`close`) and this pass has read enough, or when it shows no more than the Python stack
    /// does.
    pub(crate) fn sample_blocked(
        &mut self,
        recorder: &Recorder,
        mem: &Reader,
        call: &TaskCall,
        close: bool,
        sample: &mut Sample,
    ) {
        let (TaskCall::Syscall { sp, pc, .. } | TaskCall::InKernel { sp, pc }) = *call else {
            return;
        };
        if !close && self.idle_left == 0 {
            return;
        }
        let Some(stacks) = &mut self.stacks else { return };
        self.idle_left -= u32::from(!close);
        let outcome = stacks.read(mem, (sp, pc), sample.t_ns, &mut self.frames);
        recorder.region().lose(losses::CODES_REFUSED, outcome.refused);
        let python = sample.stack;
        if python != 0 && !stacks.has_more(mem, pc, &self.frames) {
            return;
        }
        if outcome.truncated && python == 0 {
            sample.flags |= flag::TRUNCATED;
        }
        let stack = self.stack_id(recorder, python);
        sample.stack = if stack == 0 { python } else { stack };
    }

    /// The recorder's id of a stack that a thread copied itself; 0: there is no room, or stacks are
    /// not wanted.
    pub(crate) fn copied(
        &mut self,
        recorder: &Recorder,
        mem: &Reader,
        at: (Registers, u64),
        stack: &[u8],
    ) -> u32 {
        let Some(stacks) = &mut self.stacks else { return 0 };
        let outcome = stacks.read_copied(mem, at, stack, &mut self.frames);
        recorder.region().lose(losses::CODES_REFUSED, outcome.refused);
        self.stack_id(recorder, 0)
    }

    /// The recorder's id of the stack in `frames` (innermost first) inside the stack `outer` (0:
    /// none); 0 when there is no room.
    fn stack_id(&mut self, recorder: &Recorder, outer: u32) -> u32 {
        let mut hasher = DefaultHasher::new();
        (&self.frames, outer).hash(&mut hasher);
        let hash = hasher.finish();
        if let Some(id) = self.known.get(&hash) {
            return *id;
        }
        if self.nodes_left < self.frames.len() {
            recorder.region().lose(losses::STACKS_REFUSED, 1);
            return 0;
        }
        let mut parent = outer;
        for i in (0..self.frames.len()).rev() {
            let frame = self.frames[i];
            let code = self.code_id(recorder, frame.site);
            parent = recorder.tables().stack(parent, code, line_of(&frame));
            if parent > self.newest {
                self.newest = parent;
                self.nodes_left -= 1;
            }
        }
        if self.known.len() >= MOST_STACKS {
            self.known.clear();
        }
        self.known.insert(hash, parent);
        parent
    }

    /// The lock whose waiters sleep at `futex`, for `Sample.lock`, if it is a variable of a program
    /// or library: its place as a name, `path TAB tag TAB 0xOFFSET from the file's first page`. For
    /// a lock that is `shared` with other processes: `NAME in shared memory`. 0: it lies elsewhere.
    pub(crate) fn lock(
        &mut self,
        recorder: &Recorder,
        mem: &Reader,
        (futex, shared): (u64, bool),
        now: u64,
    ) -> u64 {
        if shared {
            return self.shared_lock(recorder, futex);
        }
        let found = self.stacks.as_mut().and_then(|stacks| stacks.variable(mem, futex, now));
        let Some((file, offset)) = found else { return 0 };
        let id = match self.locks.get(&(file, offset)) {
            Some(id) => *id,
            None => {
                let text = self.stacks.as_ref().and_then(|stacks| stacks.text(file)).unwrap_or("?");
                let id = recorder.tables().name(&format!("{text}\t{offset:#x}"));
                self.locks.insert((file, offset), id);
                id
            }
        };
        word_of(id)
    }

    fn shared_lock(&mut self, recorder: &Recorder, futex: u64) -> u64 {
        if let Some(word) = self.shared.get(&futex) {
            return *word;
        }
        let path = sys::mapped::file_at(futex).ok().flatten().unwrap_or_default();
        let path = path.strip_suffix(" (deleted)").unwrap_or(&path);
        let name = match path.rsplit('/').next() {
            // What the kernel calls memory without a file.
            Some("zero") | Some("") | None => "a lock",
            Some(name) => name,
        };
        let target = recorder.tables().classed(Class::Target, &format!("{name} in shared memory"));
        if self.shared.len() >= MOST_SHARED {
            self.shared.clear();
        }
        self.shared.insert(futex, word_of(target));
        word_of(target)
    }

    fn code_id(&mut self, recorder: &Recorder, site: u32) -> u32 {
        let tables = recorder.tables();
        let index = site as usize;
        if site == FRAME_POINTER {
            return tables.native_code(tables.name("fp"), tables.name("?"));
        }
        if let Some(id) = self.codes.get(index).filter(|id| **id != 0) {
            return *id;
        }
        let found = self.stacks.as_ref().and_then(|stacks| stacks.site(site));
        let Some((file, offset)) = found.filter(|_| site != NO_SITE) else {
            return tables.native_code(tables.name("?"), tables.name("?"));
        };
        let id = tables.native_code(tables.name(&format!("{offset:#x}")), tables.name(file));
        if self.codes.len() <= index {
            self.codes.resize(index + 1, 0);
        }
        self.codes[index] = id;
        id
    }
}

/// A name's id as `Sample.target` and `Sample.lock` have it; 0 where there was no room for the
/// name.
fn word_of(name: u32) -> u64 {
    if name == 0 {
        0
    } else {
        TARGET_IS_NAME | u64::from(name)
    }
}

/// The line of a stack's node, as `region::code_flag::NATIVE` has it.
fn line_of(frame: &Frame) -> u32 {
    frame.gap | frame.link << GAP_BITS | if frame.interrupted { RUNNING } else { 0 }
}

/// Appends sights of the thread of `sample` before it, as samples of their own that take over the
/// wall time up to them and equal parts of the CPU time.
fn append_earlier(
    sink: &impl Sink,
    sights: &mut [(u64, Builder)],
    python: bool,
    sample: &mut Sample,
) {
    let now = sample.t_ns;
    if sights.is_empty() {
        return;
    }
    let runs = sample.wait == WaitKind::Running;
    let shares = sights.len() as u64 + u64::from(runs);
    let share_ns = sample.cpu_ns / shares;
    for (t_ns, record) in sights {
        let earlier = Sample {
            t_ns: *t_ns,
            stack: if python { sample.stack } else { 0 },
            flags: sample.flags & flag::TIMES,
            wait: WaitKind::Running,
            wall_ns: sample.wall_ns.saturating_sub(now - *t_ns),
            cpu_ns: share_ns,
            ..crate::policy::tracks::blank(sample.tid, now, 0)
        };
        sample.wall_ns -= earlier.wall_ns;
        sample.cpu_ns -= share_ns;
        sink.append(record.finish(*t_ns), now);
        sink.append(&earlier.encode(), now);
    }
}
