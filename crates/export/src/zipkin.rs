//! Zipkin's v2 JSON: the list that its `/api/v2/spans` takes.
//!
//! It follows OpenTelemetry's specification of Zipkin exporters: status and scope are tags
//! (`otel.status_code`, `error`, `otel.scope.name`), moments are annotations, attributes are texts.
//! Times are whole microseconds. Links have no place in the format; each is a tag, `link.N`.

use std::io::{self, Write};

use ::otlp::{Attribute, Kind, Moment, Span, Status, Value};
use analysis::states::Threads;
use capture::read::Capture;
use serde_json::{json, Map, Value as Json};

use crate::otlp::{resource, SAID, SEEN};
use crate::part_writer::PartWriter;
use crate::spans::Spans;
use crate::Progress;

/// The writer of the list.
pub(crate) struct List<'o> {
    out: &'o mut dyn Write,
    any: bool,
}

impl<'o> List<'o> {
    pub(crate) fn new(out: &'o mut dyn Write) -> List<'o> {
        List { out, any: false }
    }

    fn begin(&mut self) -> io::Result<()> {
        let first = !std::mem::replace(&mut self.any, true);
        if first {
            self.out.write_all(b"[")?;
        }
        Ok(())
    }
}

impl PartWriter for List<'_> {
    fn part(&mut self, capture: &Capture, progress: &mut Progress<'_>) -> io::Result<()> {
        let threads = Threads::new(capture);
        let spans = Spans::of(&threads);
        let all = (spans.said.len() + spans.seen.len()) as u64;
        let resource = resource(&threads);
        let notes: Map<String, Json> = tags(&resource.attributes).into_iter().collect();
        let service = Some(capture.meta.service.as_str()).filter(|name| !name.is_empty());
        let local = json!({ "serviceName": service.unwrap_or("unknown") });
        let mut done = 0;
        for (scope, spans) in [(SAID, &spans.said), (SEEN, &spans.seen)] {
            for span in spans {
                let mut object = of_span(span, scope);
                object.insert("localEndpoint".to_owned(), local.clone());
                if span.parent == 0 {
                    // The recording process is described in the root: there is no other place.
                    if let Some(Json::Object(tags)) = object.get_mut("tags") {
                        notes.iter().for_each(|(key, value)| {
                            tags.entry(key.clone()).or_insert_with(|| value.clone());
                        });
                    }
                }
                self.out.write_all(if self.any { b",\n" } else { b"[\n" })?;
                self.any = true;
                serde_json::to_writer(&mut *self.out, &object)?;
                done += 1;
                if done % 1000 == 0 {
                    progress(done, all);
                }
            }
        }
        Ok(())
    }

    fn finish(&mut self, _: &Capture, _: &mut Progress<'_>) -> io::Result<()> {
        self.begin()?;
        self.out.write_all(b"\n]\n")?;
        self.out.flush()
    }
}

fn of_span(span: &Span<'_>, scope: &str) -> Map<String, Json> {
    let mut object = Map::new();
    let mut set = |key: &str, value: Json| object.insert(key.to_owned(), value);
    set("traceId", format!("{:032x}", span.trace).into());
    set("id", format!("{:016x}", span.id).into());
    if span.parent != 0 {
        set("parentId", format!("{:016x}", span.parent).into());
    }
    set("name", span.name.as_ref().into());
    let kind = match span.kind {
        Kind::Server => "SERVER",
        Kind::Client => "CLIENT",
        Kind::Producer => "PRODUCER",
        Kind::Consumer => "CONSUMER",
        Kind::Unset | Kind::Internal => "",
    };
    if !kind.is_empty() {
        set("kind", kind.into());
    }
    // 0 means unknown in both.
    set("timestamp", (span.begin_ns / 1000).max(1).into());
    set("duration", (span.end_ns.saturating_sub(span.begin_ns) / 1000).max(1).into());
    if !span.moments.is_empty() {
        set("annotations", span.moments.iter().map(annotation).collect());
    }
    set("tags", Json::Object(all_tags(span, scope)));
    object
}

/// An event: its name, and behind it its attributes as JSON.
fn annotation(moment: &Moment<'_>) -> Json {
    let value = match moment.attributes.is_empty() {
        true => moment.name.to_string(),
        false => {
            let list: Map<String, Json> = tags(&moment.attributes).into_iter().collect();
            format!("{:?}: {}", moment.name, Json::Object(list))
        }
    };
    json!({ "timestamp": (moment.t_ns / 1000).max(1), "value": value })
}

/// Attributes, and everything that has no field in Zipkin.
fn all_tags(span: &Span<'_>, scope: &str) -> Map<String, Json> {
    let mut all: Map<String, Json> = tags(&span.attributes).into_iter().collect();
    let mut tag = |key: String, value: String| {
        all.insert(key, value.into());
    };
    tag("otel.scope.name".to_owned(), scope.to_owned());
    match span.status {
        Status::Unset => (),
        Status::Ok => tag("otel.status_code".to_owned(), "OK".to_owned()),
        Status::Error => {
            tag("otel.status_code".to_owned(), "ERROR".to_owned());
            tag("error".to_owned(), span.message.to_string());
        }
    }
    if span.dropped_moments > 0 {
        tag("otel.dropped_events_count".to_owned(), span.dropped_moments.to_string());
    }
    if !span.state.is_empty() {
        tag("w3c.tracestate".to_owned(), span.state.to_string());
    }
    for (i, link) in span.links.iter().enumerate() {
        tag(format!("link.{i}"), format!("{:032x}-{:016x}", link.trace, link.span));
    }
    all
}

/// Attributes as texts; if a key occurs again, the first value counts.
fn tags(list: &[Attribute<'_>]) -> Vec<(String, Json)> {
    let mut out: Vec<(String, Json)> = Vec::with_capacity(list.len());
    for (key, value) in list {
        let text = match value {
            Value::Text(text) => text.to_string(),
            Value::Int(v) => v.to_string(),
            Value::Float(v) => v.to_string(),
            Value::Bool(v) => v.to_string(),
            Value::Texts(texts) => json!(texts).to_string(),
        };
        if !key.is_empty() && !out.iter().any(|(before, _)| before == key.as_ref()) {
            out.push((key.to_string(), text.into()));
        }
    }
    out
}
