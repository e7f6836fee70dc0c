//! Attributes, resources and scopes.

use std::borrow::Cow;

use crate::wire::Message;

/// An attribute's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// Text.
    Text(Cow<'a, str>),
    /// Whole number.
    Int(i64),
    /// Fractional number.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// Several texts.
    Texts(Vec<Cow<'a, str>>),
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Value::Text(Cow::Owned(text))
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Value::Text(Cow::Borrowed(text))
    }
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Value::Bool(value)
    }
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Value::Int(value)
    }
}

impl From<u32> for Value<'_> {
    fn from(value: u32) -> Self {
        Value::Int(i64::from(value))
    }
}

impl From<u64> for Value<'_> {
    /// Values past `i64::MAX`, which OTLP cannot hold, become `i64::MAX`.
    fn from(value: u64) -> Self {
        Value::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<f64> for Value<'_> {
    fn from(value: f64) -> Self {
        Value::Float(value)
    }
}

/// A key and its value.
pub type Attribute<'a> = (Cow<'a, str>, Value<'a>);

/// Writes attributes as field `field`. A key that comes again is left out: the first one counts, as
/// the specification wants keys to be unique. Returns how many were left out.
pub(crate) fn attributes(out: &mut Message, field: u32, list: &[Attribute<'_>]) -> u32 {
    let mut again = 0;
    for (i, (key, value)) in list.iter().enumerate() {
        if key.is_empty() || list[..i].iter().any(|(before, _)| before == key) {
            again += 1;
            continue;
        }
        out.message(field, |pair| {
            pair.text(1, key.as_bytes());
            pair.message(2, |any| put(any, value));
        });
    }
    again
}

fn put(any: &mut Message, value: &Value<'_>) {
    match value {
        Value::Text(text) => any.present_text(1, text.as_bytes()),
        Value::Bool(value) => any.present_varint(2, u64::from(*value)),
        // Two's complement, as proto's int64 is.
        Value::Int(value) => any.present_varint(3, *value as u64),
        Value::Float(value) => any.double(4, *value),
        Value::Texts(texts) => any.message(5, |list| {
            for text in texts {
                list.message(1, |any| any.present_text(1, text.as_bytes()));
            }
        }),
    }
}

/// The source of the data: the process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resource<'a> {
    /// By OpenTelemetry's semantic conventions: `service.name`, `host.name`, `process.pid`.
    pub attributes: Vec<Attribute<'a>>,
}

impl Resource<'_> {
    pub(crate) fn put(&self, out: &mut Message, field: u32) {
        out.message(field, |resource| {
            let left_out = attributes(resource, 1, &self.attributes);
            resource.varint(2, u64::from(left_out));
        });
    }
}

/// The part of dashcam that recorded it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its version.
    pub version: &'a str,
}

impl Scope<'_> {
    pub(crate) fn put(&self, out: &mut Message, field: u32) {
        out.message(field, |scope| {
            scope.text(1, self.name);
            scope.text(2, self.version);
        });
    }
}

/// Random bits as the text of a UUID of version 4: `service.instance.id`, which distinguishes
/// processes of a service for receivers that look only at it (Prometheus' `instance`).
pub fn uuid(random: u128) -> String {
    let bits = random & !(0xf << 76) & !(0b11 << 62) | 4 << 76 | 0b10 << 62;
    let hex = format!("{bits:032x}");
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::uuid;

    #[test]
    fn a_uuid_has_its_version_and_variant() {
        assert_eq!(uuid(0), "00000000-0000-4000-8000-000000000000");
        assert_eq!(uuid(u128::MAX), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }
}
