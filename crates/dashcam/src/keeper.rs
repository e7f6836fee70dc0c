//! The keeper: writes captures, one at a time, away from everybody else; takes the windows of
//! metrics between them.

use std::borrow::Cow;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use format::own_span;
use format::record::{flag, header, Kind};
use format::region::losses;
use format::trace::Trace;
use recorder::Recorder;

use crate::captures_log::CapturesLog;
use crate::control::{lock, say, Job, Made, Shared};
use crate::hook::Hooks;
use crate::notes::Notes;
use crate::sampler_thread::RAN_OUT;
use crate::windows::{self, Windows};
use crate::{firing, meta, snapshot};

/// Between two looks at the jobs.
const IDLE: Duration = Duration::from_millis(500);
/// Between two MiB of the box that are made ready.
const POPULATE: Duration = Duration::from_millis(3);
/// Captures whose path `status` tells.
const REMEMBERED: usize = 50;

/// The keeper's life.
pub(crate) fn run(shared: Arc<Shared>) {
    recorder::name_thread("dashcam-keeper");
    let mut number = 0;
    let mut populated = 0;
    let mut windows = Windows::new(&shared);
    let mut hooks = Hooks::default();
    let mut log = CapturesLog::default();
    let mut notes = Notes::since(&shared.recorder.region().losses());
    loop {
        windows.tick();
        notes.look(sys::clock::now_ns(), &shared.recorder.region().losses(), say);
        // A piece of the box at a time, so that neither the start nor a record pays for its pages.
        let idle = match shared.recorder.region().populate(populated) {
            true => POPULATE,
            false => IDLE.min(windows.left() / 2),
        };
        populated += 1;
        let job = next(&shared, idle);
        hooks.look(&shared);
        let retired = lock(&shared.retired).take();
        drop(retired);
        let job = match job {
            Next::Job(job) => job,
            Next::Idle => continue,
            Next::End => {
                windows.take();
                return hooks.end(&shared);
            }
        };
        // So that the capture has what was counted to this moment.
        windows.take();
        number += 1;
        let result = match sys::reserve::ran_out() {
            true => Err(RAN_OUT.to_owned()),
            false => save(&shared, &job, number),
        };
        note(&shared, &result);
        if let Ok(made) = &result {
            log.captured(&shared, &job, &made.path);
            hooks.captured(&shared, &made.path);
        }
        let result = result.map(|made| made.path);
        if let Some(done) = job.done {
            // Nobody waits any more: the capture is there all the same.
            let _ = done.try_send(result);
        }
    }
}

enum Next {
    Job(Job),
    /// None came in time.
    Idle,
    /// Nobody will post another.
    End,
}

fn next(shared: &Shared, idle: Duration) -> Next {
    let mut jobs = lock(&shared.jobs);
    for _ in 0..2 {
        if let Some(job) = jobs.pop_front() {
            return Next::Job(job);
        }
        if shared.stopping() && shared.sampler_left.load(Ordering::Acquire) {
            return Next::End;
        }
        if windows::is_wanted() {
            return Next::Idle;
        }
        let waited = shared.job_came.wait_timeout(jobs, idle);
        jobs = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
    }
    Next::Idle
}

fn save(shared: &Shared, job: &Job, number: u64) -> Result<Made, String> {
    wait_for_sampler(shared);
    tell_open_requests(shared.recorder);
    let begin_ns = sys::clock::now_ns();
    let region = shared.recorder.region();
    let mut config = Cow::Borrowed(shared.config());
    if let Some(slow) = &job.slow {
        config.to_mut().slow.clone_from(slow);
    }
    let config = &*config;
    let since_ns = begin_ns.saturating_sub(config.window_ns);
    let sources = lock(&shared.sources).clone();
    let standing = meta::standing(config, &shared.runtime, &sources);
    let start_ns = region.header(format::region::word::START_NS).load(Ordering::Relaxed);
    let stats = shared.stats.json(start_ns, config.budget_percent);
    let from_ns = since_ns.max(start_ns);
    let standing = standing.flag("open_told", true).raw("repeated", &firing::repeated(shared));
    let text = meta::capture(standing, region, &job.reason, from_ns, begin_ns, &stats);
    shared.saving.store(true, Ordering::Release);
    let written = snapshot::write(config, region, &text, since_ns, number);
    shared.saving.store(false, Ordering::Release);
    let took_ns = sys::clock::now_ns() - begin_ns;
    shared.stats.capture_ns.store(took_ns, Ordering::Relaxed);
    let name = shared.recorder.tables().name(own_span::CAPTURE);
    let (end_ns, head) = (begin_ns + took_ns, header(Kind::Span, 4, 0, name));
    recorder::append_interval([head, begin_ns, end_ns, 0], end_ns);
    let made = |path| Made { path, from_ns, to_ns: begin_ns };
    written.map(made).map_err(|error| {
        let out = config.out.display();
        format!("capture not written to {out}: {error}; set out= to a folder that can be written")
    })
}

/// Tells once more which requests are open, so that one whose end was lost is not taken for one that
/// still runs.
fn tell_open_requests(recorder: &Recorder) {
    let now = sys::clock::now_ns();
    recorder.open_requests().each(|request| {
        let flags = flag::AGAIN | if request.on_loop { flag::ASYNC } else { 0 };
        let head = header(Kind::RequestBegin, 5, flags, request.name);
        let (begin_ns, tid) = (request.begin_ns, u64::from(request.tid));
        recorder::append(&[head, begin_ns, request.id, begin_ns, tid], now);
        if let Some(told) = recorder.open_requests().trace(request.id) {
            recorder::traces::tell(&Trace { t_ns: begin_ns, ..told }, &[]);
        }
    });
}

/// Asks the sampler to put what threads are doing now into the ring; goes on without it after a
/// tenth of a second (it may be gone, or starved).
fn wait_for_sampler(shared: &Shared) {
    let wanted = shared.flush_wanted.fetch_add(1, Ordering::AcqRel) + 1;
    shared.recorder.nap().wake();
    for _ in 0..50 {
        // Acquire: pairs with the sampler's release after it wrote.
        if shared.flushed.load(Ordering::Acquire) >= wanted || shared.stopping() {
            return;
        }
        sys::thread::pause_for(Duration::from_millis(2));
    }
}

fn note(shared: &Shared, result: &Result<Made, String>) {
    match result {
        Ok(made) => {
            shared.stats.captures.fetch_add(1, Ordering::Relaxed);
            let mut captures = lock(&shared.captures);
            captures.push(made.clone());
            if captures.len() > REMEMBERED {
                captures.remove(0);
            }
            say(&format!("captured {}", made.path.display()));
        }
        Err(error) => {
            shared.recorder.region().lose(losses::CAPTURES_FAILED, 1);
            let mut last = lock(&shared.last_error);
            // The same failure again and again is told once.
            if *last != *error {
                say(error);
                last.clone_from(error);
            }
        }
    }
}
