//! The verdict on a capture, as the command `dashcam` gives it: a line of fields with tabs between.
//!
//! What it promises: a line of another form is none. Texts are short and have no control
//! characters, also if the command is not ours.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use capture::judged::Judged;
use format::json::Object;

/// Verdicts in `status`.
const REMEMBERED: usize = 20;
/// Characters of a field, so that a verdict fits into a pipe.
const MOST_CHARS: usize = 300;

/// What `dashcam judge` says of a capture. Empty texts: not known, or none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub path: PathBuf,
    /// Why the capture was made.
    pub reason: String,
    /// What the command found.
    pub judged: Judged,
}

impl Verdict {
    /// Reads the command's line.
    pub(crate) fn parse(line: &str, path: &Path, reason: &str) -> Option<Verdict> {
        let long = Judged::parse(line)?;
        let mut texts = long.fields().map(|(_, text)| short(text));
        let judged = Judged::with(|_| texts.next().unwrap_or_default());
        Some(Verdict { path: path.to_owned(), reason: short(reason), judged })
    }

    /// Of a capture that was not judged.
    pub(crate) fn unknown(path: &Path, reason: &str) -> Verdict {
        Verdict { path: path.to_owned(), reason: short(reason), judged: Judged::default() }
    }

    /// Name and text of each field, for the hook and for `status`.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&'static str, &str)> {
        std::iter::once(("reason", self.reason.as_str())).chain(self.judged.fields())
    }

    pub(crate) fn json(&self) -> String {
        let file = Object::new().text("file", &self.path.display().to_string());
        self.fields().fold(file, |object, (name, text)| object.text(name, text)).finish()
    }
}

fn short(text: &str) -> String {
    text.chars().take(MOST_CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// What `status` shows of verdicts.
#[derive(Default)]
pub(crate) struct Verdicts {
    /// Why captures are not judged; empty: they are, or there is none yet.
    pub refused: String,
    /// Captures that were to be judged and were not.
    pub missing: u64,
    last: VecDeque<Verdict>,
}

impl Verdicts {
    pub(crate) fn came(&mut self, verdict: Verdict) {
        self.last.push_back(verdict);
        if self.last.len() > REMEMBERED {
            self.last.pop_front();
        }
    }

    /// The newest one's line.
    pub(crate) fn newest(&self) -> &str {
        self.last.back().map_or("", |verdict| &verdict.judged.line)
    }

    pub(crate) fn json(&self, on: bool) -> String {
        let last: Vec<String> = self.last.iter().map(Verdict::json).collect();
        Object::new()
            .flag("on", on)
            .text("refused", &self.refused)
            .int("missing", self.missing)
            .raw("last", &format!("[{}]", last.join(",")))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "sleep\tjob.py:3 nap()\t\t98\tconfirmed\tf0\tnew\tsleep at job.py:3 nap()\n";

    #[test]
    fn a_line_of_another_form_is_no_verdict() {
        let parse = |line: &str| Verdict::parse(line, Path::new("/c/x.dashcam"), "snap");
        let verdict = parse(LINE).expect("eight fields");
        let judged = &verdict.judged;
        assert_eq!((&*judged.cause, &*judged.holder, &*judged.share), ("sleep", "", "98"));
        assert_eq!(parse("sleep\tjob.py:3"), None);
        assert_eq!(parse(""), None);
        let json = verdict.json();
        assert!(json.starts_with(r#"{"file":"/c/x.dashcam","reason":"snap","cause":"sleep""#));
    }

    #[test]
    fn a_verdict_fits_into_a_pipe_whatever_the_command_writes() {
        let fields = vec!["\u{1b}é".repeat(4000); Judged::NAMES.len()].join("\t");
        let verdict = Verdict::parse(&fields, Path::new("/x"), &"r".repeat(9000));
        let json = verdict.expect("eight fields").json();
        assert!(json.len() < 8 * 1024 && !json.contains('\u{1b}'), "{} bytes", json.len());
    }
}
