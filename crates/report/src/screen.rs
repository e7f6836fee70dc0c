//! The verdict at a terminal: for each cause a heading, and below it one short fact a line.
//!
//! How it works: each kind of fact has a label in the first column; its text is wrapped beside it.
//! Only the answer is coloured: a cause, its confidence, what to do.
//!
//! What it promises: the facts are those of the sentences in `text`; no line is longer than the
//! terminal, unless a single word is; names bring no control characters and no lines of their own.

use analysis::frames::Place;
use analysis::readable::{plain, thousands};
use diagnosis::{Confidence, Diagnosis, Finding};

use crate::text::{closing, elsewhere, failed, has_advice, headline, reached, when};
use crate::{metric_series, source_line};

/// What the terminal is like.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    /// Characters in a line.
    pub columns: usize,
    /// Whether it shows colours.
    pub colour: bool,
}

/// In front of the text of a fact.
const LABEL_COLUMNS: usize = 12;
/// Lines are not made shorter than this, however small the terminal is.
const WIDTH_MIN: usize = 40;

#[derive(Clone, Copy)]
enum Style {
    Plain,
    Bold,
    Faint,
    Green,
    Yellow,
}

impl Style {
    /// The parameter of the escape sequence that begins it (ECMA-48, SGR).
    fn parameter(self) -> u8 {
        match self {
            Style::Plain => 0,
            Style::Bold => 1,
            Style::Faint => 2,
            Style::Green => 32,
            Style::Yellow => 33,
        }
    }
}

/// The verdict for a terminal.
pub fn to_screen(diagnosis: &Diagnosis<'_>, screen: Screen) -> String {
    let mut page = Page { out: String::new(), screen };
    page.sentences(|out| headline(out, diagnosis));
    page.sentences(|out| metric_series::report(out, diagnosis.capture));
    for (i, finding) in diagnosis.findings.iter().enumerate() {
        page.out.push('\n');
        page.finding(diagnosis, i + 1, finding);
    }
    if !diagnosis.findings.is_empty() {
        page.out.push('\n');
        page.sentences(|out| closing(out, diagnosis));
    }
    page.sentences(|out| failed(out, diagnosis));
    for damage in &diagnosis.capture.damage {
        page.sentence(&format!("Note: the capture is damaged: {damage}."));
    }
    page.out
}

struct Page {
    out: String,
    screen: Screen,
}

impl Page {
    fn finding(&mut self, d: &Diagnosis<'_>, rank: usize, f: &Finding) {
        let sure = match f.confidence {
            Confidence::Confirmed => Style::Green,
            Confidence::Likely => Style::Yellow,
            Confidence::Possible => Style::Plain,
        };
        let cause = self.styled(&format!("{rank}. {}", f.cause.text()), Style::Bold);
        let confidence = self.styled(f.confidence.text(), sure);
        self.out += &format!("{cause}: {:.0} % of the excess, {confidence}\n", f.share * 100.0);
        let place = f.place.as_ref().map(|place| place.short());
        let what = place.as_deref().and_then(|place| f.summary.strip_prefix(place));
        if let Some(place) = &place {
            self.fact("place", place, Style::Bold);
            self.source(d, f.place.as_ref());
        }
        self.fact("what", what.unwrap_or(&f.summary).trim_start(), Style::Plain);
        if let Some(culprit) = f.culprit.as_ref().map(|culprit| culprit.short()) {
            if Some(&culprit) != place.as_ref() {
                self.fact("because of", &culprit, Style::Bold);
                self.source(d, f.culprit.as_ref());
            }
        }
        let path = reached(f);
        let path = path.strip_prefix(", reached from ").or(path.strip_prefix(", in "));
        self.facts("path", path);
        let (slow, normal) = (thousands(d.slow as u64), thousands((d.total - d.slow) as u64));
        let (has, too) = (f.slow_requests, f.normal_requests);
        let seen =
            format!("{has} of {slow} slow requests, {too} of {normal} normal ones{}", when(d, f));
        self.fact("seen", &seen, Style::Plain);
        let others = elsewhere(f);
        self.facts(
            "also",
            others.as_deref().and_then(|text| text.strip_prefix("Part of this, elsewhere: ")),
        );
        for (calls, percent) in &f.passed_in {
            self.fact("was in", &format!("{calls}, {percent:.0} % of it"), Style::Plain);
        }
        self.facts("trace", f.trace_ids.first().filter(|_| f.trace_is_known).map(String::as_str));
        for missing in &f.missing {
            self.fact("not certain", missing, Style::Plain);
        }
        if has_advice(f) {
            self.fact("do", f.advice.trim_end_matches('.'), Style::Green);
        }
    }

    fn facts(&mut self, label: &str, text: Option<&str>) {
        text.into_iter().for_each(|text| self.fact(label, text, Style::Plain));
    }

    /// The line of a place, if the capture has it: cut, not wrapped.
    fn source(&mut self, d: &Diagnosis<'_>, place: Option<&Place>) {
        let Some((line, changed)) = source_line::of(d.capture, place) else { return };
        let note = source_line::note(changed);
        let room = self.screen.columns.max(WIDTH_MIN) - LABEL_COLUMNS - 3 - note.len();
        self.fact("", &format!("{}{note}", source_line::cut(&line, room)), Style::Faint);
    }

    /// One fact, wrapped beside its label.
    fn fact(&mut self, label: &str, text: &str, style: Style) {
        let indent = LABEL_COLUMNS + 3;
        let width = self.screen.columns.max(WIDTH_MIN) - indent;
        for (i, line) in wrapped(text, width).iter().enumerate() {
            let label = if i == 0 { label } else { "" };
            let label = self.styled(&format!("   {label:LABEL_COLUMNS$}"), Style::Faint);
            let line = self.styled(line, style);
            self.out += &format!("{label}{line}\n");
        }
    }

    /// Sentences that others write, a line each.
    fn sentences(&mut self, write: impl FnOnce(&mut String)) {
        let mut text = String::new();
        write(&mut text);
        text.lines().for_each(|line| self.sentence(line));
    }

    fn sentence(&mut self, text: &str) {
        for line in wrapped(text, self.screen.columns.max(WIDTH_MIN)) {
            self.out.push_str(&line);
            self.out.push('\n');
        }
    }

    fn styled(&self, text: &str, style: Style) -> String {
        match (self.screen.colour, style) {
            (false, _) | (_, Style::Plain) => text.to_owned(),
            _ => format!("\x1b[{}m{text}\x1b[0m", style.parameter()),
        }
    }
}

/// The words of a text in lines of at most this many characters; a longer word is a line.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let text = plain(text);
    let mut lines: Vec<String> = Vec::new();
    let mut room = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        match lines.last_mut().filter(|_| length < room) {
            Some(line) => {
                line.push(' ');
                line.push_str(word);
                room -= length + 1;
            }
            None => {
                lines.push(word.to_owned());
                room = width.saturating_sub(length);
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_full_and_not_longer_than_asked() {
        assert_eq!(wrapped("ab cd ef", 5), ["ab cd", "ef"]);
        assert_eq!(wrapped("ab cd ef", 4), ["ab", "cd", "ef"]);
        assert_eq!(wrapped("abcdefgh x", 4), ["abcdefgh", "x"]);
        assert_eq!(wrapped("", 4), [""]);
    }
}
