//! The thread `dashcam-capture`: writes captures, one at a time, apart from all other threads;
//! takes the windows of metrics, and memory for the box, between them.

use std::borrow::Cow;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use format::own_span;
use format::record::{flag, header, Kind};
use format::region::losses;
use format::source::SourceState;
use format::trace::Trace;
use recorder::{Fate, Recorder};

use crate::captures::captures_log::CapturesLog;
use crate::captures::explain::Explain;
use crate::captures::hook::Hooks;
use crate::captures::notes::Notes;
use crate::captures::queue::{Job, Made, Next, Queue};
use crate::captures::rollups_log::RollupsLog;
use crate::captures::snapshot;
use crate::captures::stats;
use crate::metrics::windows::{self, Windows};
use crate::process::boxes;
use crate::recording::no_requests::{self, Names, NoRequests};
use crate::recording::{integrations, meta};
use crate::recording::{Recording, RAN_OUT};
use crate::say::say;
use crate::triggers::alarms::Alarms;

/// Between two reads of the jobs.
const IDLE: Duration = Duration::from_millis(500);
/// The same while a capture is judged, whose hook waits for that.
const JUDGING: Duration = Duration::from_millis(50);
/// Between two steps by which the box grows, so that no CPU is busy with its pages for long.
const GROW: Duration = Duration::from_millis(3);
/// Its name.
pub(crate) const NAME: &str = "dashcam-capture";

/// What `dashcam-capture` needs.
pub(crate) struct CaptureThread {
    pub recording: Arc<Recording>,
    pub queue: Arc<Queue>,
    pub alarms: Arc<Alarms>,
    pub windows: Windows,
    pub rollups: Arc<RollupsLog>,
}

/// The life of `dashcam-capture`.
pub(crate) fn run(parts: CaptureThread) {
    recorder::name_thread(NAME);
    let CaptureThread { recording, queue, alarms, mut windows, rollups } = parts;
    let mut number = 0;
    let (mut explain, mut hooks) = (Explain::default(), Hooks::default());
    let mut log = CapturesLog::default();
    let region = recording.recorder.region();
    let mut notes = Notes::since(&region.losses());
    let mut no_requests = NoRequests::default();
    loop {
        windows.tick();
        rollups.tick(&recording);
        notes.check(sys::clock::now_ns(), &region.losses(), say);
        region.prepare();
        let now_ns = sys::clock::now_ns();
        judge_requests(&mut no_requests, &recording, now_ns);
        let begun = recording.recorder.open_requests().begun();
        recording.share.follow(begun, region.place(), now_ns);
        let config = recording.config();
        let grows = recording.growth.step(region, config, now_ns, || boxes::room(region));
        let idle = match grows {
            true => GROW,
            false if explain.is_busy() => JUDGING,
            false => IDLE.min(windows.left() / 2),
        };
        let is_wanted = || windows::is_wanted() || !grows && recording.is_short(now_ns);
        let next = queue.next(idle, is_wanted, || recording.stopping());
        if let Some(verdict) = explain.check(&recording, &queue) {
            hooks.captured(&recording, verdict);
        }
        hooks.check(&recording);
        queue.drop_retired();
        let job = match next {
            Next::Job(job) => job,
            Next::Idle => continue,
            Next::End => {
                windows.take();
                rollups.end(&recording);
                for verdict in explain.end(&recording) {
                    hooks.captured(&recording, verdict);
                }
                return hooks.end(&recording);
            }
        };
        // So that the capture has what was counted to this moment.
        windows.take();
        number += 1;
        let result = match sys::reserve::ran_out() {
            true => Err(SourceState::Off(RAN_OUT).to_string()),
            false => save(&recording, &queue, &alarms, &job, number),
        };
        note(&recording, &queue, &result);
        if let Ok(made) = &result {
            recording.captured();
            log.captured(&recording, &job, &made.path);
            if let Some(fired) = &job.fired {
                recording.recorder.rollups().note(fired.id, Fate::Captured);
            }
            rollups.captured();
            let unjudged = explain.captured(&recording, &queue, &made.path, &job.reason);
            unjudged.into_iter().for_each(|verdict| hooks.captured(&recording, verdict));
        }
        let result = result.map(|made| made.path);
        if let Some(done) = job.done {
            // Nobody waits any more: the capture is there all the same.
            let _ = done.try_send(result);
        }
    }
}

/// Reports, once, that the process works and no request has begun.
fn judge_requests(no_requests: &mut NoRequests, recording: &Recording, now_ns: u64) {
    if !recorder::is_on() {
        return no_requests.pause();
    }
    let (process, in_place) = (OwnProcess(recording), integrations::in_place());
    let begun = recording.requests().0;
    let found = no_requests.judge(now_ns, begun, !in_place.is_empty(), &process);
    let Some(finding) = found else { return };
    let is_python = !recording.runtime.name.is_empty();
    let names = Names { is_python, in_place, known: integrations::known() };
    let line = no_requests::line(&finding, &names);
    say(&line);
    recording.no_requests.set(line);
}

/// This process, as `NoRequests` asks it.
struct OwnProcess<'a>(&'a Recording);

impl no_requests::Process for OwnProcess<'_> {
    fn cpu_ns(&self) -> u64 {
        let own_ns = self.0.sampler.cpu_ns.load(Ordering::Relaxed);
        sys::clock::process_cpu_ns().saturating_sub(own_ns)
    }

    fn listens(&self) -> Option<String> {
        sys::serving::listens(std::process::id())
    }

    fn has_clients(&self, address: &str) -> bool {
        sys::serving::has_clients(std::process::id(), address)
    }

    fn below(&self) -> Vec<sys::serving::Below> {
        sys::serving::below()
    }
}

fn save(
    recording: &Recording,
    queue: &Queue,
    alarms: &Alarms,
    job: &Job,
    number: u64,
) -> Result<Made, String> {
    wait_for_sampler(recording, queue);
    record_open_requests(recording.recorder);
    let begin_ns = sys::clock::now_ns();
    let region = recording.recorder.region();
    let mut config = Cow::Borrowed(recording.config());
    if let Some(slow) = &job.slow {
        config.to_mut().slow.text.clone_from(slow);
    }
    let config = &*config;
    let window_ns = begin_ns.saturating_sub(config.window_ns);
    let since_ns = job.reaches_ns.map_or(window_ns, |reaches_ns| reaches_ns.min(window_ns));
    let lasting = meta::lasting(config, &recording.runtime, &recording.sources.list());
    let start_ns = region.header(format::region::word::START_NS).load(Ordering::Relaxed);
    let stats = stats::json(&recording.sampler, queue, start_ns, recording.budget_percent());
    let from_ns = since_ns.max(start_ns);
    let lasting = lasting.flag("open_told", true).raw("repeated", &alarms.repeated());
    let text = meta::capture(lasting, region, &job.reason, from_ns, begin_ns, &stats);
    let written = queue.saving(|| snapshot::write(config, region, &text, since_ns, number));
    let took_ns = sys::clock::now_ns() - begin_ns;
    queue.last_took_ns.store(took_ns, Ordering::Relaxed);
    let name = recording.recorder.tables().name(own_span::CAPTURE);
    let (end_ns, head) = (begin_ns + took_ns, header(Kind::Span, 4, 0, name));
    recorder::append_interval([head, begin_ns, end_ns, 0], end_ns);
    let made = |path| Made { path, from_ns, to_ns: begin_ns };
    written.map(made).map_err(|error| {
        let out = config.out.display();
        format!("capture not written to {out}: {error}; set out= to a folder that can be written")
    })
}

/// Records once more which requests are open, so that a request whose end was lost is not taken for
/// one that still runs.
fn record_open_requests(recorder: &Recorder) {
    let now = sys::clock::now_ns();
    recorder.open_requests().each(|request| {
        let flags = flag::AGAIN | if request.on_loop { flag::ASYNC } else { 0 };
        let head = header(Kind::RequestBegin, 5, flags, request.name);
        let (begin_ns, tid) = (request.begin_ns, u64::from(request.tid));
        recorder::append(&[head, begin_ns, request.id, begin_ns, tid], now);
        if let Some(trace) = recorder.open_requests().trace(request.id) {
            recorder::traces::record(&Trace { t_ns: begin_ns, ..trace }, &[]);
        }
    });
}

/// Asks the sampler to put what threads are doing now into the ring; goes on without it after a
/// tenth of a second (it may be gone, or starved).
fn wait_for_sampler(recording: &Recording, queue: &Queue) {
    let wanted = queue.want_flush();
    recording.recorder.nap().wake_for_due();
    for _ in 0..50 {
        if queue.is_flushed(wanted) || recording.stopping() {
            return;
        }
        sys::thread::pause_for(Duration::from_millis(2));
    }
}

fn note(recording: &Recording, queue: &Queue, result: &Result<Made, String>) {
    match result {
        Ok(made) => {
            queue.captured(made.clone());
            say(&format!("captured {}", made.path.display()));
        }
        Err(error) => {
            recording.recorder.region().lose(losses::CAPTURES_FAILED, 1);
            // A failure that repeats is reported once.
            if queue.failed(error) {
                say(error);
            }
        }
    }
}
