//! What stdout is like, if it is a terminal, and text that fits it.

use std::io::{self, IsTerminal};

use anstream::{AutoStream, ColorChoice};
use report::{wrapped, Screen};

/// Longer lines are hard to read, however wide the terminal is.
const WIDEST: usize = 110;
/// Lines are not made shorter than this.
const LEAST: usize = 30;
/// Without a size of its own.
const USUAL: usize = 80;
const USUAL_ROWS: usize = 24;

/// What stdout is like, if it is a terminal. Colours follow NO_COLOR, CLICOLOR and TERM.
pub fn terminal() -> Option<Screen> {
    let stdout = io::stdout();
    stdout.is_terminal().then(|| Screen {
        columns: terminal_size::terminal_size()
            .map_or(USUAL, |(w, _)| usize::from(w.0))
            .min(WIDEST),
        colour: AutoStream::choice(&stdout) != ColorChoice::Never,
    })
}

/// Lines of the terminal.
pub fn rows() -> usize {
    terminal_size::terminal_size().map_or(USUAL_ROWS, |(_, h)| usize::from(h.0))
}

/// The lines of a text; at a terminal wrapped at its width, with what a line is indented by kept.
pub fn fitted(text: &str) -> String {
    match terminal() {
        Some(screen) => wrapped_at(text, screen.columns),
        None => text.to_owned(),
    }
}

fn wrapped_at(text: &str, columns: usize) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let indent = line.len() - line.trim_start_matches(' ').len();
        // What goes on is indented further, if the line itself is.
        let hanging = if indent == 0 { 0 } else { indent + 2 };
        let width = columns.saturating_sub(hanging).max(LEAST);
        for (at, part) in wrapped(line.trim_start_matches(' '), width).iter().enumerate() {
            let indent = if at == 0 { indent } else { hanging };
            out += &format!("{:indent$}{part}\n", "");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_wrapped_and_stay_indented() {
        let text = "Sources:\n  wakers: off: the kernel refuses its records here\n";
        let wanted = "Sources:\n  wakers: off: the kernel\n    refuses its records here\n";
        assert_eq!(wrapped_at(text, 34), wanted);
    }
}
