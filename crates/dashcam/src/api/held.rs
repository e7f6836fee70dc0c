//! An attribute's value, held by a guard until its record is written.
//!
//! Texts are copied in, cut at the limit of a span's attribute, so that a guard borrows nothing;
//! what makes a record of them counts the cut (`is_cut`). No allocation.

use std::fmt::{self, Write};

use format::record::{Value, MAX_TEXT};

/// Bytes kept of a text: past the limit by one character of any length.
const KEPT: usize = MAX_TEXT + 4;

/// A value of an attribute.
#[derive(Clone, Copy)]
pub enum Held {
    /// Not known yet; left out of the record when it stays so.
    Later,
    /// An integer; larger ones than an `i64` holds become the largest.
    Int(i64),
    /// A number.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A text.
    Text(HeldText),
}

/// The beginning of a text.
#[derive(Clone, Copy)]
pub struct HeldText {
    len: u8,
    bytes: [u8; KEPT],
}

impl Default for HeldText {
    fn default() -> HeldText {
        HeldText { len: 0, bytes: [0; KEPT] }
    }
}

impl HeldText {
    fn as_str(&self) -> &str {
        let text = std::str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or("");
        let end = (0..=text.len().min(MAX_TEXT)).rev().find(|at| text.is_char_boundary(*at));
        &text[..end.unwrap_or(0)]
    }
}

impl Write for HeldText {
    /// Takes what there is room for, and stops the formatting when it is full.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let at = usize::from(self.len);
        let mut take = text.len().min(KEPT - at);
        while !text.is_char_boundary(take) {
            take -= 1;
        }
        self.bytes[at..at + take].copy_from_slice(&text.as_bytes()[..take]);
        self.len += take as u8;
        if take == text.len() {
            Ok(())
        } else {
            Err(fmt::Error)
        }
    }
}

impl Held {
    /// What `{}` writes of a value.
    pub fn display(value: &dyn fmt::Display) -> Held {
        Held::written(format_args!("{value}"))
    }

    /// What `{:?}` writes of a value.
    pub fn debug(value: &dyn fmt::Debug) -> Held {
        Held::written(format_args!("{value:?}"))
    }

    fn written(arguments: fmt::Arguments<'_>) -> Held {
        let mut text = HeldText::default();
        // Full: the record counts that it was cut.
        let _ = text.write_fmt(arguments);
        Held::Text(text)
    }

    /// Whether `value` is only the beginning of a text.
    #[inline]
    pub fn is_cut(&self) -> bool {
        matches!(self, Held::Text(text) if usize::from(text.len) > MAX_TEXT)
    }

    /// As a record takes it. None: not known.
    #[inline]
    pub fn value(&self) -> Option<Value<'_>> {
        match self {
            Held::Later => None,
            Held::Int(v) => Some(Value::Int(*v)),
            Held::Float(v) => Some(Value::Float(*v)),
            Held::Bool(v) => Some(Value::Bool(*v)),
            Held::Text(text) => Some(Value::Text(text.as_str())),
        }
    }
}

macro_rules! integers {
    ($($kind:ty),*) => {$(
        impl From<$kind> for Held {
            #[inline]
            fn from(value: $kind) -> Held {
                Held::Int(i64::try_from(value).unwrap_or(i64::MAX))
            }
        }
    )*};
}
integers!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize);

impl From<f64> for Held {
    #[inline]
    fn from(value: f64) -> Held {
        Held::Float(value)
    }
}

impl From<f32> for Held {
    #[inline]
    fn from(value: f32) -> Held {
        Held::Float(f64::from(value))
    }
}

impl From<bool> for Held {
    #[inline]
    fn from(value: bool) -> Held {
        Held::Bool(value)
    }
}

impl From<&str> for Held {
    #[inline]
    fn from(value: &str) -> Held {
        let mut text = HeldText::default();
        let _ = text.write_str(value);
        Held::Text(text)
    }
}

impl From<&String> for Held {
    #[inline]
    fn from(value: &String) -> Held {
        Held::from(value.as_str())
    }
}

impl From<String> for Held {
    #[inline]
    fn from(value: String) -> Held {
        Held::from(value.as_str())
    }
}

/// None is left out of the record.
impl<T: Into<Held>> From<Option<T>> for Held {
    #[inline]
    fn from(value: Option<T>) -> Held {
        value.map_or(Held::Later, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters_at_the_limit_of_a_span() {
        for text in ["x".repeat(200), "\u{20ac}".repeat(60), "\u{1f600}".repeat(40)] {
            let held = Held::from(&text);
            let Some(Value::Text(kept)) = held.value() else { panic!("a text") };
            assert!(text.starts_with(kept) && kept.len() <= MAX_TEXT && held.is_cut(), "{kept}");
        }
        assert_eq!(Held::debug(&Some(3)).value(), Some(Value::Text("Some(3)")));
        assert!(!Held::from(&"x".repeat(MAX_TEXT)).is_cut() && !Held::from(1).is_cut());
        assert_eq!(Held::from(u64::MAX).value(), Some(Value::Int(i64::MAX)));
        assert!(Held::from(None::<u8>).value().is_none());
    }
}
