//! A small JSON writer for the host side: settings, status and the META chunk of a capture.
//!
//! The host must not carry a serialiser for half a dozen flat objects; the reading side uses a real
//! JSON library. Output is always valid JSON: text is escaped, numbers that JSON cannot hold (NaN,
//! infinities) become null.

use std::fmt::Write;

/// One JSON object under construction.
#[derive(Default)]
pub struct Object {
    text: String,
}

impl Object {
    /// An empty object.
    pub fn new() -> Object {
        Object::default()
    }

    /// Adds a text field.
    pub fn text(mut self, key: &str, value: &str) -> Object {
        self.key(key);
        push_text(&mut self.text, value);
        self
    }

    /// Adds a whole number.
    pub fn int(mut self, key: &str, value: u64) -> Object {
        self.key(key);
        let _ = write!(self.text, "{value}");
        self
    }

    /// Adds a fractional number; null where JSON has no form for it.
    pub fn number(mut self, key: &str, value: f64) -> Object {
        self.key(key);
        match value.is_finite() {
            true => drop(write!(self.text, "{value}")),
            false => self.text.push_str("null"),
        }
        self
    }

    /// Adds true or false.
    pub fn flag(mut self, key: &str, value: bool) -> Object {
        self.key(key);
        self.text.push_str(if value { "true" } else { "false" });
        self
    }

    /// Adds a value that is JSON already (another object, an array).
    pub fn raw(mut self, key: &str, json: &str) -> Object {
        self.key(key);
        self.text.push_str(json);
        self
    }

    /// The finished object.
    pub fn finish(self) -> String {
        format!("{{{}}}", self.text)
    }

    fn key(&mut self, key: &str) {
        if !self.text.is_empty() {
            self.text.push(',');
        }
        push_text(&mut self.text, key);
        self.text.push(':');
    }
}

/// A JSON array of texts.
pub fn texts<'a>(items: impl IntoIterator<Item = &'a str>) -> String {
    let mut out = String::from("[");
    for (i, item) in items.into_iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        push_text(&mut out, item);
    }
    out.push(']');
    out
}

/// Appends a text as JSON.
pub fn push_text(out: &mut String, value: &str) {
    out.push('"');
    for c in value.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if (c as u32) < 0x20 => drop(write!(out, "\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_numbers_without_a_json_form_become_null() {
        let made = Object::new()
            .text("a\"b", "line\none\u{1}\\")
            .int("n", 7)
            .number("x", f64::NAN)
            .raw("list", &texts(["p", "q"]))
            .finish();
        assert_eq!(made, r#"{"a\"b":"line\none\u0001\\","n":7,"x":null,"list":["p","q"]}"#);
    }
}
