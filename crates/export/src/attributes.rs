//! Attributes of spans: from rows of the capture, and those of dashcam's own.

use std::borrow::Cow;

use ::otlp::{Attribute, Value};
use analysis::states::Threads;
use capture::read::{Capture, Text};

/// Attributes of a row.
pub(crate) fn attributes<'c>(capture: &'c Capture, list: &'c [(u32, Text)]) -> Vec<Attribute<'c>> {
    let value = |value: &'c Text| match value {
        Text::Int(v) => Value::Int(*v),
        Text::Float(v) => Value::Float(*v),
        Text::Bool(v) => Value::Bool(*v),
        Text::Text(v) => Value::from(v.as_str()),
    };
    list.iter().map(|(key, v)| (Cow::Borrowed(capture.name(*key)), value(v))).collect()
}

/// Adds an attribute of dashcam's own.
pub(crate) fn put<'c>(
    list: &mut Vec<Attribute<'c>>,
    key: &'static str,
    value: impl Into<Value<'c>>,
) {
    list.push((Cow::Borrowed(key), value.into()));
}

/// The identity of a thread.
pub(crate) fn thread<'c>(list: &mut Vec<Attribute<'c>>, threads: &Threads<'c>, tid: u32) {
    put(list, "thread.id", tid);
    put(list, "thread.name", threads.name(tid));
}
