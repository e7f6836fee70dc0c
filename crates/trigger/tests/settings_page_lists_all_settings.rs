//! docs/settings.md has a row for each setting, in the words of the list.
#![allow(clippy::expect_used, missing_docs)]

use trigger::{Knob, KNOBS};

#[test]
fn every_setting_is_a_row_of_the_page_and_no_row_is_more() {
    let page = include_str!("../../../docs/settings.md");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let code = |text: &str| match text {
        "" => "none".to_owned(),
        _ => format!("`{text}`"),
    };
    // A bar would end the table's cell.
    assert!(!KNOBS.iter().any(|knob| knob.range.contains('|')));
    // Stars outside of code are emphasis.
    let accepts = |text: &str| if text.contains('*') { code(text) } else { text.to_owned() };
    let row = |knob: &Knob| {
        let (default, accepts) = (code(knob.default), accepts(knob.range));
        format!("| `{}` | {default} | {accepts} | {} |", knob.name, knob.sentence)
    };
    let wanted: Vec<String> = KNOBS.iter().map(row).collect();
    assert_eq!(rows, wanted, "wanted in docs/settings.md:\n{}", wanted.join("\n"));
}
