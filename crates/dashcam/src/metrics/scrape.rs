//! The endpoint for scrapers: glue between the settings, the recorder and crate `openmetrics`.

use std::sync::Arc;

use format::json::Object;
use format::source::SourceState;
use openmetrics::{Address, Endpoint, Exemplar, RequestTimes};
use recorder::{Recorder, LATENCY_BOUNDS_NS};
use settings::Config;

use crate::captures::queue::{Made, Queue};
use crate::recording::Recording;
use crate::say::say;

/// The endpoint that the settings ask for.
pub(crate) fn endpoint(
    config: &Config,
    recorder: &'static Recorder,
    queue: &Arc<Queue>,
) -> Option<Arc<Endpoint>> {
    // Checked when the settings were read.
    let address = Address::parse(&config.openmetrics).ok().flatten()?;
    recorder.measure_latencies();
    let queue = queue.clone();
    let requests = Box::new(move || requests(recorder, &queue));
    Some(Arc::new(Endpoint::new(address, std::process::id(), requests)))
}

/// Source `openmetrics`; on stderr too when it is off, once for each reason.
fn set_state(recording: &Recording, state: &str) {
    let state = SourceState::parse(state);
    if let SourceState::Off(why) = state {
        say(&format!("openmetrics: {why}"));
    }
    recording.set_source("openmetrics", state.owned());
}

/// The life of the thread that answers.
pub(crate) fn run(recording: &Recording, endpoint: &Endpoint) {
    recorder::name_thread("dashcam-openmetrics");
    endpoint.run(&|state| set_state(recording, state));
}

/// Times of all requests, by name.
fn requests(recorder: &Recorder, queue: &Queue) -> Vec<RequestTimes> {
    let to_epoch_ns = sys::clock::epoch_ns().saturating_sub(sys::clock::now_ns());
    let made = queue.made();
    let seed = recorder.ids_seed();
    let mut found = Vec::new();
    recorder.latencies().each(|name, view| {
        let exemplar = |slow: recorder::Slow| Exemplar {
            request: slow.id,
            trace: match slow.trace {
                0 => format::ids::trace_id(seed, slow.id),
                other => other,
            },
            capture: held_by(&made, slow.at_ns),
            took_ns: slow.took_ns,
            at_epoch_ns: slow.at_ns + to_epoch_ns,
        };
        found.push(RequestTimes {
            name: recorder.limits().name_text(name).unwrap_or("(other)").to_owned(),
            counts: view.counts.to_vec(),
            bounds_ns: &LATENCY_BOUNDS_NS,
            sum_ns: view.sum_ns,
            exemplars: view.slowest.into_iter().map(|s| s.map(exemplar)).collect(),
        });
    });
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// Name of the first capture that is still there and reaches over this time; empty: there is none.
fn held_by(made: &[Made], t_ns: u64) -> String {
    let holds = |made: &&Made| (made.from_ns..=made.to_ns).contains(&t_ns) && made.path.exists();
    let name = |made: &Made| Some(made.path.file_name()?.to_str()?.to_owned());
    made.iter().find(holds).and_then(name).unwrap_or_default()
}

/// For `status`; "off" when no address is set.
pub(crate) fn json(endpoint: Option<&Endpoint>) -> String {
    let Some(endpoint) = endpoint else { return "\"off\"".to_owned() };
    let stats = endpoint.stats();
    Object::new()
        .text("listening", &stats.listening)
        .text("error", &stats.error)
        .int("series", stats.series)
        .int("scrapes", stats.scrapes)
        .int("refused", stats.refused)
        .int("bytes", stats.bytes)
        .int("collisions", stats.collisions)
        .text("last_collision", &stats.last_collision)
        .int("left_out", stats.left_out)
        .int("members_refused", stats.members_refused)
        .finish()
}
