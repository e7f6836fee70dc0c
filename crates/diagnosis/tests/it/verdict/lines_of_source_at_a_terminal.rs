//! Below a place, `why` at a terminal shows the line of source that the capture has of it.

use capture::read::Capture;
use capture::source::SourceLines;
use diagnosis::diagnose;
use format::wait::WaitKind;
use made::{request, seen, stack, BEGIN, MS};
use report::{to_screen, to_text, Screen};

use crate::made;

fn capture(line: &str, changed: bool) -> Capture {
    let mut made = made::capture(7, &["GET /"]);
    made.requests.push(request(99, 7, BEGIN, 500));
    let view = stack(&mut made, &[("view", "/srv/app.py", 12)]);
    made::off(&mut made, 7, &[(0, 499)]);
    seen(&mut made, 7, &[(100, WaitKind::Sleep, view), (300, WaitKind::Sleep, view)]);
    made.source.push(SourceLines {
        file: "/srv/app.py".to_owned(),
        line: 12,
        first: 11,
        lines: vec!["def view():".to_owned(), line.to_owned()],
        changed,
    });
    made
}

fn screen(capture: &Capture) -> Vec<String> {
    let screen = Screen { columns: 72, colour: false };
    let text = to_screen(&diagnose(capture, |_| 300 * MS), screen);
    text.lines().map(str::to_owned).collect()
}

#[test]
fn the_line_follows_its_place_and_is_cut_to_the_terminal() {
    let lines = screen(&capture("    time.sleep(1)", false));
    let at = lines.iter().position(|l| l.contains("app.py:12 view()")).expect("the place");
    assert_eq!(lines[at + 1].trim(), "time.sleep(1)");
    let long = screen(&capture(&format!("\tcall({})", "x".repeat(300)), true));
    let line = &long[at + 1];
    assert!(line.trim().starts_with("call(xxx"), "{line}");
    assert!(line.ends_with("… (the file has changed since)"), "{line}");
    assert_eq!(line.chars().count(), 72, "{line}");
}

#[test]
fn a_line_brings_no_escape_sequence_to_a_terminal_or_a_pipe() {
    let odd = capture("print(\"\u{1b}[31m\u{7f}\")", false);
    assert!(screen(&odd).iter().any(|l| l.trim() == "print(\"\\u{1b}[31m\\u{7f}\")"));
    let piped = to_text(&diagnose(&odd, |_| 300 * MS));
    assert!(piped.contains("print(\"\\u{1b}[31m\\u{7f}\")"), "{piped}");
    assert!(!piped.contains('\u{1b}'), "{piped}");
}
