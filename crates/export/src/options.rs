//! What an export is asked for: the value of stacks, the requests, the threads.
//!
//! How it works: the requests are divided into slow and normal ones by the limits of their names,
//! as `why` divides them. A sample belongs to the request that its thread worked on then.
//!
//! What it promises: a choice that leaves nothing is found before a file is written. Missing on
//! purpose: the causes of slow requests, since exports are made without the diagnosis.

use std::collections::HashMap;

use analysis::requests::Requests;
use analysis::states::Threads;
use analysis::words;
use capture::read::{Capture, RequestRow};

/// The weight of a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Value {
    /// Wall time, ns.
    #[default]
    Wall,
    /// CPU time, ns.
    Cpu,
    /// Time off the CPU, for any reason, ns.
    OffCpu,
    /// Number of samples.
    Samples,
}

/// Called with the progress of the writing: done, in all; the unit is the format's own.
pub type Progress<'p> = dyn FnMut(u64, u64) + 'p;

/// The requests whose samples are exported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Chosen {
    /// Every sample, also of no request.
    #[default]
    Everything,
    /// Requests past their limit.
    Slow,
    /// Requests that ended within their limit.
    Normal,
    /// The request with this id.
    One(u64),
}

/// What is exported. `requests`, `all_threads` and `limit_ns` count for pprof.
#[derive(Clone, Copy)]
pub struct Options<'l> {
    /// For formats with one value a stack.
    pub value: Value,
    /// The requests that samples are taken from.
    pub requests: Chosen,
    /// With dashcam's own threads.
    pub all_threads: bool,
    /// The time a request of that name may take, ns; u64::MAX: any.
    pub limit_ns: &'l dyn Fn(&str) -> u64,
}

impl Options<'_> {
    /// Why `capture` has nothing of the chosen requests; if it has some, what limits the export.
    pub fn check(&self, capture: &Capture) -> Result<Option<&'static str>, String> {
        let speeds = Speeds::of(capture, self.limit_ns);
        let mut found = capture.requests.iter().filter(|r| self.has(&speeds, r)).peekable();
        if found.peek().is_none() {
            return match self.requests {
                Chosen::Everything => Ok(None),
                Chosen::Slow => Err("no request of this capture is past its limit".to_owned()),
                Chosen::Normal => Err("no request of this capture is within its limit".to_owned()),
                Chosen::One(id) => Err(format!("no request {id} in this capture")),
            };
        }
        let loops = self.requests != Chosen::Everything && found.all(|r| r.on_loop);
        Ok(loops.then_some(
            "these requests ran on an event loop, whose samples belong to no single request: only \
             work that they handed to other threads is exported",
        ))
    }

    /// Whether `request` is one of those chosen.
    pub(crate) fn has(&self, speeds: &Speeds, request: &RequestRow) -> bool {
        match self.requests {
            Chosen::Everything => true,
            Chosen::Slow => speeds.is_slow(request) == Some(true),
            Chosen::Normal => speeds.is_slow(request) == Some(false),
            Chosen::One(id) => request.id == id,
        }
    }

    /// Whether a thread's samples are exported.
    pub(crate) fn has_thread(&self, threads: &Threads<'_>, tid: u32) -> bool {
        self.all_threads || !words::is_own_thread(&threads.name(tid))
    }

    /// What was left out, for the notes of a file.
    pub(crate) fn notes(&self) -> Vec<String> {
        let requests = match self.requests {
            Chosen::Everything => None,
            Chosen::Slow => Some("samples of slow requests only".to_owned()),
            Chosen::Normal => Some("samples of normal requests only".to_owned()),
            Chosen::One(id) => Some(format!("samples of request {id} only")),
        };
        let threads = (!self.all_threads).then(|| "without dashcam's own threads".to_owned());
        requests.into_iter().chain(threads).collect()
    }
}

/// Which requests are slow and which are normal, by id.
pub(crate) struct Speeds(HashMap<u64, bool>);

impl Speeds {
    /// Divides the requests of a capture.
    pub(crate) fn of(capture: &Capture, limit_ns: &dyn Fn(&str) -> u64) -> Speeds {
        let requests = Requests::divide(capture, limit_ns);
        let slow = requests.slow.iter().map(|r| (r.row.id, true));
        Speeds(slow.chain(requests.normal.iter().map(|r| (r.row.id, false))).collect())
    }

    /// None: it still ran within its limit, or its end is not known.
    pub(crate) fn is_slow(&self, request: &RequestRow) -> Option<bool> {
        self.0.get(&request.id).copied()
    }
}
