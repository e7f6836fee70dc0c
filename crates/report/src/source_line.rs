//! The line of source at a place of a verdict, as text, Markdown and a terminal show it.

use analysis::frames::Place;
use capture::read::Capture;

/// The line at a place, without the blanks around it. None: the capture does not have it, or it is
/// empty. The flag: the file has changed since.
pub(crate) fn of(capture: &Capture, place: Option<&Place>) -> Option<(String, bool)> {
    let place = place?;
    let source = capture.source_of(&place.file, place.line)?;
    let line = escaped(source.own_line()?.trim());
    (!line.is_empty()).then_some((line, source.changed))
}

/// For people, behind a line of source.
pub(crate) fn note(changed: bool) -> &'static str {
    if changed {
        " (the file has changed since)"
    } else {
        ""
    }
}

/// Without control characters: a tab is a space, others are shown as they are written in code.
fn escaped(line: &str) -> String {
    let shown = |c: char| match c {
        '\t' => " ".to_owned(),
        c if c.is_control() => c.escape_default().to_string(),
        c => c.to_string(),
    };
    line.chars().map(shown).collect()
}

/// At most this many characters; what is left out is an ellipsis.
pub(crate) fn cut(text: &str, room: usize) -> String {
    match text.chars().count() > room {
        true => text.chars().take(room.saturating_sub(1)).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_source_is_one_line_of_plain_text() {
        assert_eq!(escaped("if a:\tb(\"\u{1b}[31m\")"), "if a: b(\"\\u{1b}[31m\")");
        assert_eq!((cut("abcdef", 4), cut("abcd", 4)), ("abc…".into(), "abcd".into()));
    }
}
