//! Columns as JSON text, written without a tree in between: a page may hold millions of numbers.

use std::fmt::Write;

/// The largest whole number that a JavaScript number holds exactly.
const MOST: i64 = (1 << 53) - 1;

/// A JSON object under construction.
pub struct Object {
    text: String,
}

impl Object {
    /// `{`
    pub fn new() -> Object {
        Object { text: "{".to_owned() }
    }

    /// A member whose value is JSON already.
    pub fn raw(&mut self, key: &str, json: &str) -> &mut Object {
        if self.text.len() > 1 {
            self.text.push(',');
        }
        let _ = write!(self.text, "{}:{json}", text(key));
        self
    }

    /// A list of whole numbers.
    pub fn numbers(&mut self, key: &str, values: &[i64]) -> &mut Object {
        self.raw(key, &list(values))
    }

    /// A list of times, each as the difference from the one before: small numbers pack well.
    pub fn times(&mut self, key: &str, values: &[i64]) -> &mut Object {
        let mut before = 0i64;
        let steps: Vec<i64> = values
            .iter()
            .map(|v| {
                let step = v - before;
                before = *v;
                step
            })
            .collect();
        self.numbers(key, &steps)
    }

    /// A list of texts.
    pub fn texts(&mut self, key: &str, values: &[String]) -> &mut Object {
        self.raw(key, &items(values.iter().map(|v| text(v))))
    }

    /// `}`
    pub fn end(&mut self) -> String {
        let mut out = std::mem::take(&mut self.text);
        out.push('}');
        out
    }
}

/// `[1,2,3]`
pub fn list(values: &[i64]) -> String {
    items(values.iter().map(|v| v.clamp(&-MOST, &MOST).to_string()))
}

/// `[a,b,c]` of JSON values.
pub fn items(values: impl Iterator<Item = String>) -> String {
    let mut out = "[".to_owned();
    for value in values {
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(&value);
    }
    out.push(']');
    out
}

/// A JSON string.
pub fn text(value: &str) -> String {
    serde_json::Value::from(value).to_string()
}

/// A JSON number; null for NaN and infinities.
pub fn float(value: f64) -> String {
    serde_json::Value::from(value).to_string()
}

/// `a - b`, clamped to what a JavaScript number holds, whatever a damaged file says.
pub fn difference(a: u64, b: u64) -> i64 {
    let exact = i128::from(a) - i128::from(b);
    // The clamp keeps it within i64.
    exact.clamp(-i128::from(MOST), i128::from(MOST)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_json() {
        let mut object = Object::new();
        object.numbers("a", &[1, -2]).times("t", &[10, 12, 11]).texts("s", &["\"</x>".to_owned()]);
        assert_eq!(object.end(), r#"{"a":[1,-2],"t":[10,2,-1],"s":["\"</x>"]}"#);
        assert_eq!(list(&[i64::MAX]), format!("[{MOST}]"));
        assert_eq!(float(f64::NAN), "null");
    }

    #[test]
    fn differences_of_damaged_times_are_numbers() {
        assert_eq!(difference(5, 7), -2);
        assert_eq!(difference(u64::MAX, 0), MOST);
        assert_eq!(difference(0, u64::MAX), -MOST);
    }
}
