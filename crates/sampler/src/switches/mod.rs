//! Switch records, for the sampler: drained into the box, and paused while threads come and go by
//! the thousand.
//!
//! How it works: births are counted from the records themselves (a thread that is not in the list
//! and gets a CPU was born) and from the box's serials, whichever is more. When `Burst` says so the
//! whole stream is closed: the cost is that each new thread inherits its events, and events of
//! living threads make their switches more expensive, too (decision 0014). It is opened again by
//! the same rule. Times off the CPU end where records end, and no thread is said to have run or
//! waited by a switch in between: the vital `switches_paused_ns` records from when to when.
//!
//! Where the kernel had no room for records, that vital records the gap, too: times off the CPU end
//! at the last record before it, and begin anew behind it (decision 0020). To make gaps rare,
//! `longest_ns` says when the rings must be drained again.
//!
//! Wakeups of threads in a slow request's way come on the same stream (`wakings`).
//!
//! What it promises: source `switches` is `on; paused ...` meanwhile; `switch_pauses` and
//! `switches_paused_ms` count. What it costs: while paused, one read of the host's last id a pass.

mod waker_stacks;
mod wakings;

use std::sync::atomic::Ordering;

use crate::policy::bursts::{Burst, Change};
use crate::policy::drain_pace::Pace;
use format::off_cpu;
use format::record::SWITCHES_PAUSED;
use format::region::{losses, word};
use format::source::SourceState;
use samplers::by_tid::ByTid;
use samplers::switches::{Off, Pairs};
use sys::perf::SwitchKind;

use crate::policy::tracks::Tracks;
use crate::settings::{Settings, TURNED_OFF};
use crate::switches::wakings::Followed;
use crate::threads::native::Native;
use crate::vitals::append_vital;
use crate::world::{Clock, Proc, Sink, SwitchRecords, World};

/// Threads that are in no list yet and whose stacks are taken when they wake others, at most.
const MOST_BORN: usize = 32;

/// The stream of switch records, while there is one.
pub(crate) struct Switching<R> {
    stream: Option<R>,
    pairs: Pairs,
    /// None: there never was a stream.
    burst: Option<Burst>,
    lost: u64,
    pace: Pace,
    /// Threads that got a CPU and were in no list yet.
    born: ByTid<()>,
    /// Of the box, when it was read last.
    serials: u64,
    /// The host's last id, when it was read last while paused.
    last_id: Option<u32>,
    pause: Option<Pause>,
    /// The settings want them.
    wanted: bool,
    /// The stream is closed since the program needs its descriptors.
    given_back: bool,
    own: Vec<u32>,
    /// The threads whose wakeups are recorded.
    followed: Followed,
}

/// A time without records.
struct Pause {
    begin_ns: u64,
    /// Milliseconds of it that were counted.
    counted_ms: u64,
}

impl<R: SwitchRecords> Switching<R> {
    /// Opens the stream, if settings and kernel allow it.
    pub(crate) fn new<W>(world: &W, settings: Settings, own: &[u32]) -> Switching<R>
    where
        W: Clock + Proc<Switches = R> + Sink,
    {
        let now = world.now_ns();
        let stream = open(world, settings.switches, own);
        let burst = stream.as_ref().map(|stream| Burst::new(stream.cpus(), now));
        let followed = Followed::new(world, stream.is_some(), settings.stacks);
        Switching {
            stream,
            followed,
            pairs: Pairs::default(),
            burst,
            lost: 0,
            pace: Pace::default(),
            born: ByTid::default(),
            serials: serials(world),
            last_id: None,
            pause: None,
            wanted: settings.switches,
            given_back: false,
            own: own.to_vec(),
        }
    }

    /// Whether the kernel records switches now.
    pub(crate) fn records(&self) -> bool {
        self.stream.is_some()
    }

    /// Whether there may be threads that are in no list: one got a CPU since the last, or there are
    /// no records.
    pub(crate) fn may_know_more(&self) -> bool {
        self.stream.is_none() || !self.born.is_empty()
    }

    /// The next drain must come within this time, or the rings may be full; 0: as soon as it
    /// usually does.
    pub(crate) fn longest_ns(&self) -> u64 {
        self.stream.as_ref().map_or(u64::MAX, |_| self.pace.longest_ns())
    }

    /// Takes over what came, and pauses or resumes.
    pub(crate) fn drain<W>(&mut self, world: &W, tracks: &mut Tracks, now: u64)
    where
        W: Clock + Proc<Switches = R> + Sink,
    {
        let births = self.drain_stream(world, tracks, now);
        let births = self.births(world, births);
        match self.burst.as_mut().and_then(|burst| burst.update(now, births)) {
            Some(Change::Pause) => {
                let limit = self.burst.as_ref().map_or(0, Burst::limit);
                // The same words each time: a text of the box's tables stays for good.
                let why = format!("while more than {limit} threads a second are started");
                self.pause(world, &why);
            }
            Some(Change::Resume) => self.resume(world, tracks),
            None => self.mind_descriptors(world, tracks),
        }
    }

    /// Records what the kernel reported; returns how many threads came to a CPU for the first time.
    fn drain_stream<W>(&mut self, world: &W, tracks: &mut Tracks, now: u64) -> u64
    where
        W: Clock + Proc<Switches = R> + Sink,
    {
        let Some(stream) = &mut self.stream else { return 0 };
        let mut births = 0;
        let (pairs, born) = (&mut self.pairs, &mut self.born);
        let followed = &mut self.followed;
        // The first gap of this drain that is recorded, and one that goes on until it is over.
        let (mut gap, mut open_gap) = (false, None);
        stream.drain(|switch| {
            if let SwitchKind::Lost { until_ns } = switch.kind {
                let (from_ns, alive) = (switch.t_ns, tracks.tids());
                let end = |off: Off| append_off(world, off, off.in_ns);
                if pairs.lose((from_ns, until_ns), alive, end) {
                    gap = true;
                    match until_ns {
                        u64::MAX => open_gap = Some(from_ns),
                        until_ns => record_gap(world, from_ns, until_ns),
                    }
                }
                return;
            }
            if let SwitchKind::Woken { by } = switch.kind {
                let since = pairs.out_since(switch.tid);
                let waited_ns = since.map_or(0, |out_ns| switch.t_ns.saturating_sub(out_ns));
                let wake = followed.waking(switch.t_ns, switch.tid, by, waited_ns);
                return world.append(&wake.encode(), switch.t_ns);
            }
            if switch.kind == SwitchKind::In && !tracks.ran(switch.tid) {
                births += u64::from(born.insert(switch.tid, ()).is_none());
            }
            if let Some(off) = pairs.feed(switch) {
                append_off(world, off, off.in_ns);
            }
        });
        if let Some(from_ns) = open_gap {
            let until_ns = stream.released_ns();
            pairs.begin_at(until_ns, tracks.tids());
            record_gap(world, from_ns, until_ns);
        }
        if gap {
            // Any thread may have run inside of it; without a new sample it is recorded where it
            // was.
            tracks.all_ran();
        }
        self.pace.drained(stream.filled(), now);
        let lost = stream.lost();
        world.lose(losses::SWITCHES_LOST, lost.saturating_sub(self.lost));
        self.lost = lost;
        births
    }

    /// Threads born since the last pass, at least: `seen` came to a CPU, others recorded, and while
    /// there are no switch records the host's count says how many there may be.
    fn births(&mut self, world: &(impl Proc + Sink), seen: u64) -> u64 {
        let serials = serials(world);
        let births = seen.max(serials.saturating_sub(self.serials));
        self.serials = serials;
        match self.pause.is_some() {
            true => births.max(self.born_on_host(world)),
            false => births,
        }
    }

    /// Closes the stream while the program comes near its limit of descriptors.
    fn mind_descriptors<W>(&mut self, world: &W, tracks: &mut Tracks)
    where
        W: Clock + Proc<Switches = R> + Sink,
    {
        match (world.is_tight(), &self.stream) {
            (true, Some(stream)) => {
                sys::ours::count_given_back(stream.descriptors());
                self.given_back = true;
                self.pause(world, "while the program is near its limit of descriptors");
            }
            (false, None) if self.given_back => {
                self.given_back = false;
                self.resume(world, tracks);
            }
            _ => (),
        }
    }

    /// Asks for the wakers of these threads, which wait in a slow request's way, and for the
    /// wakers' stacks.
    pub(crate) fn follow<W: World<Switches = R>>(
        &mut self,
        world: &W,
        tracks: &Tracks,
        waiting: impl Iterator<Item = u32>,
        now: u64,
    ) {
        // A thread that is in no list yet may run Python: then its stack is dropped when it comes.
        let born = &self.born;
        let natives = || born.keys().copied().take(MOST_BORN).chain(tracks.natives()).collect();
        self.followed.ask(world, self.stream.as_mut(), waiting, natives, now);
    }

    /// Records the wakers' stacks; the switches until `now` were drained.
    pub(crate) fn record_waker_stacks(
        &mut self,
        world: &(impl Proc + Sink),
        native: &mut Native,
        now: u64,
    ) {
        self.followed.stacks.record(world, native, now);
    }

    /// Threads that ended a wait of one of those, lately.
    pub(crate) fn wakers(&mut self, now: u64) -> impl Iterator<Item = u32> + '_ {
        self.followed.wakers(now)
    }

    /// The list of threads was read: forgets those that are gone.
    pub(crate) fn listed(&mut self, lives: impl FnMut(u32) -> bool) {
        self.pairs.retain(lives);
        self.born.clear();
    }

    /// Records what threads are doing now, for a copy of the box that is about to be made.
    pub(crate) fn record_now(&mut self, sink: &impl Sink, now: u64) {
        self.pairs.still_out().for_each(|off| append_off(sink, off, now));
        self.record_pause(sink, now);
    }

    /// What is due once a second.
    pub(crate) fn each_second(&mut self, sink: &impl Sink, now: u64) {
        if let Some(stream) = &mut self.stream {
            // A CPU that cannot be covered shows as threads without switch records on it.
            let _ = stream.cover_new_cpus(&self.own);
        }
        self.record_pause(sink, now);
    }

    fn pause(&mut self, world: &(impl Clock + Proc + Sink), why: &str) {
        let mut now = world.now_ns();
        if let Some(mut stream) = self.stream.take() {
            // All until now, and nothing behind it; nor behind a gap.
            stream.drain(|switch| {
                if matches!(switch.kind, SwitchKind::Lost { .. }) {
                    now = now.min(switch.t_ns);
                }
                let off = (switch.t_ns <= now).then(|| self.pairs.feed(switch)).flatten();
                off.into_iter().for_each(|off| append_off(world, off, off.in_ns));
            });
        }
        self.lost = 0;
        self.followed.closed();
        self.pairs.end_at(now).for_each(|off| append_off(world, off, now));
        self.born.clear();
        self.last_id = world.last_id();
        // A trial that was refused goes on with the pause before it.
        if self.pause.is_none() {
            world.lose(losses::SWITCH_PAUSES, 1);
            self.pause = Some(Pause { begin_ns: now, counted_ms: 0 });
        }
        self.record_pause(world, now);
        world.set_source("switches", SourceState::partly(format_args!("paused {why}")));
        world.store_sources();
    }

    fn resume<W>(&mut self, world: &W, tracks: &mut Tracks)
    where
        W: Clock + Proc<Switches = R> + Sink,
    {
        let Some(stream) = open(world, self.wanted, &self.own) else {
            let now = world.now_ns();
            self.burst.iter_mut().for_each(|burst| burst.refused(now));
            self.record_pause(world, now);
            world.store_sources();
            return;
        };
        self.stream = Some(stream);
        let now = world.now_ns();
        self.record_pause(world, now);
        self.pause = None;
        append_vital(world, world.recorder().tables().name(SWITCHES_PAUSED), now, 0.0);
        // What was seen of threads before says nothing of where they are now.
        tracks.all_ran();
        let mut alive = Vec::new();
        if world.list(&mut alive).is_err() {
            alive.clear();
        }
        // Threads born while the stream was opened may come to a CPU for the first time.
        alive.retain(|tid| tracks.contains(*tid));
        self.pairs.begin_at(now, alive.into_iter());
        world.store_sources();
    }

    /// The vital, and what it adds to the counter.
    fn record_pause(&mut self, sink: &impl Sink, now: u64) {
        let Some(pause) = &mut self.pause else { return };
        // Not 0, which would say that it is over.
        let now = now.max(pause.begin_ns + 1);
        let lasted_ns = now - pause.begin_ns;
        let name = sink.recorder().tables().name(SWITCHES_PAUSED);
        append_vital(sink, name, now, lasted_ns as f64);
        let ms = lasted_ns / 1_000_000;
        let more = ms.saturating_sub(pause.counted_ms);
        sink.lose(losses::SWITCHES_PAUSED_MS, more);
        pause.counted_ms = ms;
    }

    /// Births on this host since the last call, at most; where ids began again: too many.
    fn born_on_host(&mut self, proc: &impl Proc) -> u64 {
        let before = std::mem::replace(&mut self.last_id, proc.last_id());
        let (Some(before), Some(now)) = (before, self.last_id) else { return 0 };
        now.checked_sub(before).map_or(u64::from(u16::MAX), u64::from)
    }
}

fn serials(sink: &impl Sink) -> u64 {
    // Relaxed: a counter.
    sink.recorder().region().header(word::THREAD_SERIAL).load(Ordering::Relaxed)
}

/// Records a time without records that is over.
fn record_gap(sink: &impl Sink, from_ns: u64, until_ns: u64) {
    let name = sink.recorder().tables().name(SWITCHES_PAUSED);
    // Readers go by time: first that there is one, then that it is over.
    let until_ns = until_ns.max(from_ns + 2);
    append_vital(sink, name, until_ns - 1, (until_ns - 1 - from_ns) as f64);
    append_vital(sink, name, until_ns, 0.0);
}

fn append_off(sink: &impl Sink, off: Off, now: u64) {
    let Off { tid, preempted, out_ns, in_ns, cpu } = off;
    sink.append(&off_cpu::encode(tid, preempted, (out_ns, in_ns), cpu), now);
}

fn open<W: Proc + Sink>(world: &W, wanted: bool, own: &[u32]) -> Option<W::Switches> {
    if !wanted {
        world.set_source("switches", SourceState::off(TURNED_OFF));
        return None;
    }
    match world.open_switches(own) {
        Ok(stream) => {
            world.set_source("switches", SourceState::On);
            Some(stream)
        }
        Err(refused) => {
            world.set_source("switches", SourceState::off(refused));
            None
        }
    }
}
