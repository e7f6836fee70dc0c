//! The state of the recorder as JSON.

use format::json::{texts, Object};
use ring::Place;

use crate::captures::stats;
use crate::exports::otlp;
use crate::lock::{contained, lock};
use crate::metrics::forward;
use crate::metrics::scrape;
use crate::metrics::windows;
use crate::recording::{integrations, meta};
use crate::running::{after_fork_child, running};

/// The state of the recorder as JSON.
pub fn status_json() -> String {
    after_fork_child();
    let failed = |why: String| Object::new().flag("on", false).text("last_error", &why).finish();
    contained(status_now).unwrap_or_else(failed)
}

/// Variables of other agents that name a receiver, which only `=env` would use.
fn passed_over(given: &str) -> String {
    let otlp = ::otlp::env::passed_over(given, sys::environment::text);
    texts(otlp.into_iter().chain(statsd::passed_over(sys::environment::text)))
}

fn status_now() -> String {
    let Some(parts) = running() else {
        return Object::new().flag("on", false).finish();
    };
    let (recording, queue) = (&parts.recording, &parts.queue);
    let (config, region) = (recording.config(), recording.recorder.region());
    let captures: Vec<String> =
        queue.made().iter().map(|made| made.path.display().to_string()).collect();
    let (place, why) = match region.place() {
        Place::File(path) => (path.display().to_string(), String::new()),
        Place::Process(why) => ("process memory".to_owned(), why.clone()),
    };
    let mut streams = lock(&parts.streams);
    streams.retain(|stream| stream.strong_count() > 0);
    let streams: Vec<String> =
        streams.iter().filter_map(|s| s.upgrade()).map(|s| s.json()).collect();
    let (requests, slow) = recording.requests();
    let mut open = 0;
    recording.recorder.open_requests().each(|_| open += 1);
    let sampler =
        stats::json(&recording.sampler, queue, parts.started_ns, recording.budget_percent());
    Object::new()
        .flag("on", recorder::is_on())
        .text("service", &config.service)
        .int("pid", u64::from(std::process::id()))
        .text("box", &place)
        .text("box_not_in_a_file_because", &why)
        .int("box_bytes", region.bytes() as u64)
        .int("box_present_bytes", region.present_bytes() as u64)
        .text("box_does_not_grow_because", &recording.growth.refused())
        .raw("settings", &config.json())
        .raw("sources", &meta::sources(&recording.sources.list()))
        .raw("losses", &meta::loss_counts(region))
        .raw("descriptors", &meta::descriptors())
        .raw("repeated", &parts.alarms.repeated())
        .raw("sampler", &sampler)
        .int("open_requests", open)
        .raw("metrics", &windows::json())
        .raw("statsd", &forward::json())
        .raw("openmetrics", &scrape::json(parts.endpoint.as_deref()))
        .raw("otlp", &otlp::json())
        .raw("variables_passed_over", &passed_over(&config.otlp))
        .int("requests", requests)
        .text("no_requests_because", &recording.no_requests_because())
        .raw("integrations_in_place", &texts(integrations::in_place().iter().map(String::as_str)))
        .int("slow_requests", slow)
        .raw("streams", &format!("[{}]", streams.join(",")))
        .raw("captures", &texts(captures.iter().map(String::as_str)))
        .raw("verdicts", &lock(&queue.verdicts).json(config.explain))
        .text("last_error", &queue.last_error())
        .finish()
}
