//! The simulated world: threads that run and wait, what the kernel says of them, and what it costs
//! to ask.
//!
//! How it works: a test gives the threads' states and moves the time; `passes` makes the sampler's
//! passes as its thread would. Each question moves the clock and the sampler's CPU time by its
//! cost.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;

use format::record::{decode, Record, Sample};
use format::source::SourceState;
use recorder::{Limit, OpenRequest, Recorder};
use ring::Region;
use sampler::world::{Clock, Proc, Sink, SwitchRecords, ThreadFiles, VitalSigns};
use sampler::{Figures, Next, Sampler, Settings};
use sys::calls::{Wait, WaitKind, NAMED, RUNNING};
use sys::mem::Reader;
use sys::perf::{Refused, Switch, SwitchKind, Wakings};
use sys::task::{Schedstat, TaskCall, Usage};
use sys::vitals::Missing;

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1000 * MS;
/// The sampler's own thread.
pub const OWN: u32 = 1;
/// When a world begins.
pub const START_NS: u64 = 1000 * SECOND;
/// Name of all requests, and their limit.
const REQUEST: ring::Name = 1;
const LIMIT_NS: u64 = 100 * MS;

/// What it costs to ask, ns of CPU.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    pub pass: u64,
    pub sample: u64,
    pub list: u64,
}

/// One thread.
#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    times: Schedstat,
    /// The futex it waits in; None: it runs.
    futex: Option<u64>,
}

struct State {
    now_ns: u64,
    own: Schedstat,
    threads: BTreeMap<u32, Thread>,
    owners: BTreeMap<u64, u32>,
    open: Vec<OpenRequest>,
    begun: u64,
    costs: Costs,
    /// None: the kernel refuses switch records.
    switches: Option<Vec<Switch>>,
    filled: f64,
    lost: u64,
    tight: bool,
    records: Vec<Vec<u64>>,
    sources: BTreeMap<String, String>,
}

/// All of it.
pub struct World {
    state: RefCell<State>,
    recorder: &'static Recorder,
    mem: Reader,
    figures: Figures,
}

impl World {
    /// With threads 2 to `threads` + 1, which wait; `exact`: the kernel gives switch records.
    pub fn new(threads: u32, exact: bool, costs: Costs) -> World {
        let region = Region::in_process(1 << 20, 4711, "a test").expect("1 MiB");
        let limit_of = |_: &str| Limit { ns: LIMIT_NS, group: 0 };
        let world = World {
            state: RefCell::new(State {
                now_ns: START_NS,
                own: Schedstat::default(),
                threads: BTreeMap::new(),
                owners: BTreeMap::new(),
                open: Vec::new(),
                begun: 0,
                costs,
                switches: exact.then(Vec::new),
                filled: 0.0,
                lost: 0,
                tight: false,
                records: Vec::new(),
                sources: BTreeMap::new(),
            }),
            recorder: Recorder::new(region, Box::new(limit_of)),
            mem: Reader::new().expect("own memory"),
            figures: Figures::default(),
        };
        (2..threads + 2).for_each(|tid| world.waits_in(tid, 64 * u64::from(tid)));
        world
    }

    /// A sampler in this world.
    pub fn sampler(&self) -> Sampler<&World> {
        let settings = Settings {
            period_ns: 10 * MS,
            budget_percent: 1.0,
            threads: 16,
            switches: true,
            stacks: false,
        };
        Sampler::new(self, settings, OWN, None, Default::default())
    }

    pub fn advance(&self, ns: u64) {
        self.state.borrow_mut().now_ns += ns;
    }

    /// The sampler waited this long for a CPU.
    pub fn delay_sampler(&self, ns: u64) {
        let mut state = self.state.borrow_mut();
        (state.now_ns, state.own.run_delay_ns) = (state.now_ns + ns, state.own.run_delay_ns + ns);
    }

    /// A thread waits in that futex, and may be born with that.
    pub fn waits_in(&self, tid: u32, futex: u64) {
        self.state.borrow_mut().threads.entry(tid).or_default().futex = Some(futex);
    }

    /// A thread runs for this long, until now, and then goes on with what it did.
    pub fn runs(&self, tid: u32, run_ns: u64) {
        let mut state = self.state.borrow_mut();
        let now_ns = state.now_ns;
        let thread = state.threads.entry(tid).or_default();
        thread.times.run_ns += run_ns;
        thread.times.slices += 1;
        let out = thread.futex.map(|_| (now_ns, SwitchKind::Out));
        let came = std::iter::once((now_ns - run_ns, SwitchKind::In)).chain(out);
        if let Some(switches) = &mut state.switches {
            switches.extend(came.map(|(t_ns, kind)| Switch { t_ns, tid, cpu: 0, kind }));
        }
    }

    pub fn ends(&self, tid: u32) {
        self.state.borrow_mut().threads.remove(&tid);
    }

    pub fn owns(&self, tid: u32, futex: u64) {
        self.state.borrow_mut().owners.insert(futex, tid);
    }

    /// A request began on that thread, this long ago.
    pub fn request(&self, tid: u32, ago_ns: u64) {
        let mut state = self.state.borrow_mut();
        let begin_ns = state.now_ns - ago_ns;
        let helpers = Default::default();
        let id = u64::from(tid);
        let request =
            OpenRequest { id, begin_ns, name: REQUEST, tid, on_loop: false, task: 0, helpers };
        state.open.push(request);
        state.begun += 1;
    }

    pub fn all_requests_end(&self) {
        self.state.borrow_mut().open.clear();
    }

    /// Records of switches are missing between the two.
    pub fn loses(&self, from_ns: u64, until_ns: u64) {
        let mut state = self.state.borrow_mut();
        let kind = SwitchKind::Lost { until_ns };
        state.lost += 1;
        let lost = Switch { t_ns: from_ns, tid: 0, cpu: 0, kind };
        state.switches.iter_mut().for_each(|switches| switches.push(lost));
    }

    pub fn rings_are_filled(&self, filled: f64) {
        self.state.borrow_mut().filled = filled;
    }

    pub fn is_near_its_limit_of_descriptors(&self, is: bool) {
        self.state.borrow_mut().tight = is;
    }

    pub fn now(&self) -> u64 {
        self.state.borrow().now_ns
    }

    pub fn source(&self, name: &str) -> String {
        self.state.borrow().sources.get(name).cloned().unwrap_or_default()
    }

    pub fn lost(&self, loss: usize) -> u64 {
        self.recorder.region().losses()[loss]
    }

    /// CPU time that the sampler has counted of itself.
    pub fn spent_ns(&self) -> u64 {
        self.figures.cpu_ns.load(std::sync::atomic::Ordering::Relaxed)
    }

    pub fn passes(&self) -> u64 {
        self.figures.passes.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// What was written since the last call.
    pub fn take_records(&self) -> Vec<Vec<u64>> {
        std::mem::take(&mut self.state.borrow_mut().records)
    }

    /// Of these records the samples.
    pub fn samples(records: &[Vec<u64>]) -> Vec<Sample> {
        let sample = |words: &Vec<u64>| match decode(words) {
            Some((_, Record::Sample(sample))) => Some(sample),
            _ => None,
        };
        records.iter().filter_map(sample).collect()
    }

    /// Of these records the values of that vital, with their times.
    pub fn vitals(&self, records: &[Vec<u64>], wanted: &str) -> Vec<(u64, f64)> {
        let wanted = self.recorder.tables().name(wanted);
        let vital = |words: &Vec<u64>| match decode(words) {
            Some((_, Record::Vital { name, t_ns, value })) if name == wanted => Some((t_ns, value)),
            _ => None,
        };
        records.iter().filter_map(vital).collect()
    }

    fn spend(&self, of: impl FnOnce(&Costs) -> u64) {
        let mut state = self.state.borrow_mut();
        let ns = of(&state.costs);
        (state.now_ns, state.own.run_ns) = (state.now_ns + ns, state.own.run_ns + ns);
    }
}

/// Makes passes until `until_ns`, each behind a call of `before`; how often each of the two sorts
/// of pauses came: until the next period, and naps.
pub fn passes(
    world: &World,
    sampler: &mut Sampler<&World>,
    until_ns: u64,
    mut before: impl FnMut(&World),
) -> (u64, u64) {
    let mut next_ns = world.now();
    let (mut periods, mut naps) = (0, 0);
    while world.now() < until_ns {
        before(world);
        let now = world.now();
        sampler.beat(next_ns, now);
        world.spend(|costs| costs.pass);
        sampler.pass(now);
        sampler.end_pass();
        next_ns = match sampler.next(next_ns) {
            Next::At(next_ns) => {
                periods += 1;
                next_ns
            }
            Next::Nap { until_ns, .. } => {
                naps += 1;
                until_ns
            }
        };
        world.advance(next_ns.saturating_sub(world.now()));
    }
    (periods, naps)
}

impl Clock for &World {
    fn now_ns(&self) -> u64 {
        self.now()
    }

    fn thread_cpu_ns(&self) -> u64 {
        self.state.borrow().own.run_ns
    }

    fn process_cpu_ns(&self) -> u64 {
        let state = self.state.borrow();
        state.own.run_ns + state.threads.values().map(|thread| thread.times.run_ns).sum::<u64>()
    }

    fn yield_cpu(&self) {}
}

/// Of one thread.
pub struct Files<'w>(&'w World, u32);

impl Files<'_> {
    fn read<T>(&self, of: impl FnOnce(&Thread) -> T) -> io::Result<T> {
        let state = self.0.state.borrow();
        let own = Thread { times: state.own, futex: None };
        let thread = if self.1 == OWN { Some(&own) } else { state.threads.get(&self.1) };
        // ESRCH.
        thread.map(of).ok_or_else(|| io::Error::from_raw_os_error(3))
    }
}

impl ThreadFiles for Files<'_> {
    fn schedstat(&mut self) -> io::Result<Schedstat> {
        self.0.spend(|costs| costs.sample);
        self.read(|thread| thread.times)
    }

    fn call(&mut self) -> io::Result<TaskCall> {
        self.read(|thread| match thread.futex {
            None => TaskCall::Running,
            // futex(2), on this architecture or another: `Proc::wait` knows.
            Some(futex) => {
                TaskCall::Syscall { nr: 202, args: [futex, 0, 0, 0, 0, 0], sp: 0, pc: 0 }
            }
        })
    }

    fn usage(&mut self) -> io::Result<Usage> {
        self.read(|_| Usage::default())
    }

    fn descriptors(&self) -> usize {
        3
    }
}

/// Of all threads.
pub struct Stream<'w>(&'w World);

impl SwitchRecords for Stream<'_> {
    fn drain(&mut self, each: impl FnMut(Switch)) {
        let came = self.0.state.borrow_mut().switches.as_mut().map(std::mem::take);
        let mut came = came.unwrap_or_default();
        came.sort_by_key(|switch| switch.t_ns);
        came.into_iter().for_each(each);
    }

    fn released_ns(&self) -> u64 {
        self.0.now()
    }

    fn filled(&self) -> f64 {
        self.0.state.borrow().filled
    }

    fn lost(&self) -> u64 {
        self.0.state.borrow().lost
    }

    fn cpus(&self) -> usize {
        2
    }

    fn descriptors(&self) -> usize {
        4
    }

    fn cover_new_cpus(&mut self, _skip: &[u32]) -> Result<usize, Refused> {
        Ok(0)
    }

    fn follow(&mut self, _wakings: &mut Wakings, _tids: &[u32]) -> Result<(), Refused> {
        Err(refused())
    }
}

fn refused() -> Refused {
    Refused { what: "a test", errno: 1, paranoid: None }
}

/// None are recorded.
pub struct NoVitals;

impl VitalSigns for NoVitals {
    fn read(&mut self, _each: impl FnMut(&'static str, f64)) {}

    fn missing(&self) -> &[Missing] {
        &[]
    }

    fn give_back(&mut self) {}

    fn open_descriptors(&self) -> Option<u64> {
        None
    }
}

impl<'w> Proc for &'w World {
    type Files = Files<'w>;
    type Switches = Stream<'w>;
    type Vitals = NoVitals;

    fn list(&self, tids: &mut Vec<u32>) -> io::Result<()> {
        self.spend(|costs| costs.list);
        tids.clear();
        tids.push(OWN);
        tids.extend(self.state.borrow().threads.keys());
        Ok(())
    }

    fn cpu_ns(&self, tid: u32) -> Option<u64> {
        self.state.borrow().threads.get(&tid).map(|thread| thread.times.run_ns)
    }

    fn open(&self, tid: u32) -> io::Result<Files<'w>> {
        let files = Files(self, tid);
        files.read(|_| ())?;
        Ok(files)
    }

    fn last_id(&self) -> Option<u32> {
        self.state.borrow().threads.keys().next_back().copied()
    }

    fn open_switches(&self, _skip: &[u32]) -> Result<Stream<'w>, Refused> {
        let mut state = self.state.borrow_mut();
        // What came while it was closed is not recorded.
        state.switches.as_mut().ok_or_else(refused)?.clear();
        Ok(Stream(self))
    }

    fn find_wakings(&self) -> Result<Wakings, Refused> {
        Err(refused())
    }

    fn open_vitals(&self) -> NoVitals {
        NoVitals
    }

    fn memory(&self) -> &Reader {
        &self.mem
    }

    fn wait(&self, call: &TaskCall) -> Wait {
        let (kind, futex) = match call {
            TaskCall::Syscall { args, .. } => (WaitKind::Futex, Some(args[0])),
            _ => (WaitKind::Other(RUNNING), None),
        };
        Wait { kind, fd: None, fds: 0, set: [None; NAMED], futex, timeout_ns: None, timed: false }
    }

    fn lock_owner(&self, _call: &TaskCall, futex: u64) -> Option<u32> {
        self.state.borrow().owners.get(&futex).copied()
    }

    fn has_room(&self, _descriptors: usize) -> bool {
        true
    }

    fn note_descriptors(&self, _count: impl FnOnce() -> Option<u64>) {}

    fn is_tight(&self) -> bool {
        self.state.borrow().tight
    }
}

impl Sink for &World {
    fn append(&self, record: &[u64], _now_ns: u64) {
        self.state.borrow_mut().records.push(record.to_vec());
    }

    fn recorder(&self) -> &'static Recorder {
        self.recorder
    }

    fn set_source(&self, name: &str, state: SourceState) {
        self.state.borrow_mut().sources.insert(name.to_owned(), state.to_string());
    }

    fn store_sources(&self) {}

    fn retire(&self, _wakings: Option<Wakings>) {}

    fn figures(&self) -> &Figures {
        &self.figures
    }

    fn open_requests(&self, each: impl FnMut(OpenRequest)) {
        let open = self.state.borrow().open.clone();
        open.into_iter().for_each(each);
    }

    fn requests_begun(&self) -> u64 {
        self.state.borrow().begun
    }

    fn times_of(&self, _name: ring::Name) -> (u64, u64) {
        (10 * MS, LIMIT_NS)
    }
}
