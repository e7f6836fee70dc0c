//! The progress of long work: one line on stderr, if it is a terminal, once the work takes long.
//!
//! A command does one thing after the other, so there is one line in the process. A thread of its
//! own draws it, also while the work has nothing to report. Other output has to call `clear` first.

use std::io::IsTerminal;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Shorter work is not shown.
const QUIET: Duration = Duration::from_millis(400);
/// Time between two drawings.
const TICK: Duration = Duration::from_millis(100);

struct Line {
    text: String,
    /// The amount done and the whole, if known.
    part: Option<(u64, u64)>,
    began: Instant,
    drawn: bool,
}

static LINE: Mutex<Option<Line>> = Mutex::new(None);

fn line() -> MutexGuard<'static, Option<Line>> {
    LINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins a stage, like `reading a.dashcam`.
pub fn stage(text: impl Into<String>) {
    let mut line = line();
    let (began, drawn) = line.as_ref().map_or((Instant::now(), false), |l| (l.began, l.drawn));
    let first = line.replace(Line { text: text.into(), part: None, began, drawn }).is_none();
    drop(line);
    if first && std::io::stderr().is_terminal() {
        // Without the thread there is no line; the work is done all the same.
        let _ = std::thread::Builder::new().spawn(draw);
    }
}

/// The amount of the stage that is done.
pub fn at(done: u64, all: u64) {
    if let Some(line) = line().as_mut() {
        line.part = Some((done, all));
    }
}

/// Removes the line; there is none until the next stage.
pub fn clear() {
    if line().take().is_some_and(|line| line.drawn) {
        eprint!("\r\x1b[K");
    }
}

/// Writes other text to stderr; the line continues below it.
pub fn note(text: &str) {
    let mut line = line();
    if let Some(line) = line.as_mut().filter(|line| line.drawn) {
        eprint!("\r\x1b[K");
        line.drawn = false;
    }
    eprintln!("dashcam: {text}");
}

fn draw() {
    loop {
        std::thread::sleep(TICK);
        let mut line = line();
        let Some(line) = line.as_mut() else { return };
        if line.began.elapsed() >= QUIET {
            line.drawn = true;
            eprint!("\r\x1b[Kdashcam: {}", words(&line.text, line.part, line.began.elapsed()));
        }
    }
}

fn words(text: &str, part: Option<(u64, u64)>, took: Duration) -> String {
    let seconds = took.as_secs();
    match part {
        Some((done, all)) if all > 0 => {
            let percent = (u128::from(done) * 100 / u128::from(all)).min(100);
            format!("{text}: {percent} %, {seconds} s")
        }
        _ => format!("{text}: {seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_and_how_far() {
        let took = Duration::from_millis(3_400);
        assert_eq!(words("reading a", None, took), "reading a: 3 s");
        assert_eq!(words("reading a", Some((1, 0)), took), "reading a: 3 s");
        assert_eq!(words("writing b", Some((u64::MAX, u64::MAX)), took), "writing b: 100 %, 3 s");
        stage("one");
        at(1, 4);
        assert_eq!(line().as_ref().and_then(|l| l.part), Some((1, 4)));
        stage("two");
        assert_eq!(line().as_ref().and_then(|l| l.part), None);
        clear();
        assert!(line().is_none());
        at(1, 2);
        assert!(line().is_none(), "no stage, no line");
    }
}
