//! What other languages and the pages say about settings is generated from the list.
//!
//! `DASHCAM_WRITE_SETTINGS=1 cargo test -p dashcam-settings` writes it; without the variable the
//! tests fail where a file differs. Each copy lies between two lines that stay as they are.
#![allow(clippy::expect_used, missing_docs)]

use std::path::Path;
use std::sync::Mutex;

use settings::{Knob, KNOBS};

/// Compares the lines between the one that ends with `begin` and the next that begins with `end`
/// (behind its indent), or writes them.
fn hold(file: &str, begin: &str, end: &str, made: &[String]) {
    /// Two tests write into one file.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _held = ONE_AT_A_TIME.lock();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    let text = std::fs::read_to_string(&path).expect("the file is there");
    let lines: Vec<&str> = text.lines().collect();
    let first = lines.iter().position(|line| line.ends_with(begin)).expect(begin) + 1;
    let length = lines[first..].iter().position(|line| line.trim_start().starts_with(end));
    let last = first + length.expect(end);
    if std::env::var_os("DASHCAM_WRITE_SETTINGS").is_some() {
        let made = made.iter().map(String::as_str);
        let all = lines[..first].iter().copied().chain(made).chain(lines[last..].iter().copied());
        let all: String = all.map(|line| format!("{line}\n")).collect();
        return std::fs::write(&path, all).expect("written");
    }
    assert!(
        lines[first..last] == *made,
        "{file} differs from crates/settings/src/list.rs; refresh it with\n    \
         DASHCAM_WRITE_SETTINGS=1 cargo test -p dashcam-settings\nwanted:\n{}",
        made.join("\n"),
    );
}

/// Words in lines of at most `columns`, each behind `indent`, or the first one behind `head`.
fn wrapped(head: &str, indent: &str, columns: usize, text: &str) -> Vec<String> {
    let mut lines = vec![head.to_owned()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("one");
        let is_empty = line.is_empty() || line.ends_with(' ');
        let length = line.chars().count() + word.chars().count();
        match length + usize::from(!is_empty) <= columns {
            true if is_empty => line.push_str(word),
            true => line.push_str(&format!(" {word}")),
            false => lines.push(format!("{indent}{word}")),
        }
    }
    lines
}

fn names(chosen: impl Fn(&Knob) -> bool) -> String {
    let names: Vec<&str> = KNOBS.iter().filter(|k| chosen(k)).map(|k| k.name).collect();
    names.join(", ")
}

/// The words of a kind that takes one of some.
fn words(knob: &Knob) -> String {
    let words: Vec<String> = knob.accepts.split(", ").map(|word| format!("{word:?}")).collect();
    format!("Literal[{}]", words.join(", "))
}

/// The type and the default of the parameter of Python's `start`.
fn parameter(knob: &Knob) -> String {
    let text = || format!("{:?}", knob.default);
    let (kind, default) = match knob.kind {
        "Switch" => {
            let default = if knob.default == "on" { "True" } else { "False" };
            ("bool | Literal[\"on\", \"off\"]".to_owned(), default.to_owned())
        }
        "Folder" => ("str | PathLike[str]".to_owned(), text()),
        "Size" | "Pages" => ("str | int".to_owned(), text()),
        "Count" => ("int".to_owned(), knob.default.to_owned()),
        "Number" | "Rate" | "Percent" => ("float".to_owned(), knob.default.to_owned()),
        "Signal" | "End" => (words(knob), text()),
        "Service" | "OfProcess" | "Slow" | "Errors" | "Metrics" | "Time" | "TimeOrNone"
        | "Endpoint" | "Collector" | "Command" => ("str".to_owned(), text()),
        other => panic!("found the kind {other}, wanted its Python type here"),
    };
    match knob.default {
        "" => format!("    {}: {kind} | None = None,", knob.name),
        _ => format!("    {}: {kind} = {default},", knob.name),
    }
}

/// The type of the value in `status()["settings"]`; none for those beside it.
fn shown(knob: &Knob) -> Option<String> {
    let kind = match knob.kind {
        "Service" | "OfProcess" => return None,
        "Switch" | "Signal" => "bool".to_owned(),
        "Size" | "Pages" | "Count" | "Rate" | "Time" | "TimeOrNone" => "int".to_owned(),
        "Number" | "Percent" => "float".to_owned(),
        "End" => words(knob),
        _ => "str".to_owned(),
    };
    Some(kind)
}

#[test]
fn each_setting_is_a_row_of_the_page() {
    let code = |text: &str| match text {
        "" => "none".to_owned(),
        _ => format!("`{text}`"),
    };
    // A bar would end the table's cell.
    assert!(!KNOBS.iter().any(|knob| knob.accepts.contains('|')));
    // Stars outside of code are emphasis.
    let accepts = |text: &str| if text.contains('*') { code(text) } else { text.to_owned() };
    let row = |knob: &Knob| {
        let (default, accepts) = (code(knob.default), accepts(knob.accepts));
        format!("| `{}` | {default} | {accepts} | {} |", knob.name, knob.sentence)
    };
    let mut rows: Vec<String> = KNOBS.iter().map(row).collect();
    rows.insert(0, "| --- | --- | --- | --- |".to_owned());
    rows.push(String::new());
    hold("docs/settings.md", "| what it does |", "| more about", &rows);
}

#[test]
fn the_page_about_control_lists_what_can_be_changed() {
    let text = format!("{} ([settings](settings.md)).", names(|knob| knob.live));
    let mut lines = vec![String::new()];
    lines.extend(wrapped("", "", 120, &text));
    lines.push(String::new());
    hold("docs/control.md", "## What can be changed", "- All changes", &lines);
}

#[test]
fn the_c_header_names_each_setting() {
    let lines = wrapped("/// ", "/// ", 100, &format!("{}.", names(|_| true)));
    hold("c/src/process.rs", "which take precedence:", "#[repr(C)]", &lines);
}

#[test]
fn python_start_is_written_out() {
    let parameters: Vec<String> = KNOBS.iter().map(parameter).collect();
    hold("python/dashcam/__init__.py", "    # Generated: crates/settings.", "when:", &parameters);
}

#[test]
fn python_start_describes_each_setting() {
    let described = |knob: &Knob| {
        let head = format!("    {}: ", knob.name);
        let sentence = format!("{} Accepts {}.", knob.sentence, knob.accepts);
        wrapped(&head, "        ", 100, &sentence.replace('\\', "\\\\"))
    };
    let lines: Vec<String> = KNOBS.iter().flat_map(described).collect();
    hold("python/dashcam/__init__.py", "    Settings:", "when:", &lines);
}

#[test]
fn python_types_the_settings_in_force() {
    let field = |knob: &Knob| {
        let described = wrapped("    \"\"\"", "    ", 100, &format!("{}\"\"\"", knob.sentence));
        let field = format!("    {}: {}", knob.field, shown(knob)?);
        Some([vec![field], described].concat())
    };
    let lines: Vec<String> = KNOBS.iter().filter_map(field).flatten().collect();
    hold("python/dashcam/shapes.py", "    # Generated: crates/settings.", "# End.", &lines);
}
