//! Every number that decides a verdict is in `analysis::thresholds`: no other file of the analysis
//! or the diagnosis has a length of time or a part of something, but for bounds of cost and words.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use analysis::thresholds::ALL;

/// At most so many: each is one more thing to understand.
const THRESHOLDS_MAX: usize = 45;

/// Numbers that decide nothing, with the reason.
const OTHERS: &[(&str, &str)] = &[("thresholds::storage_kib()", "a unit"), ("epoch_ns", "a unit")];

/// Files of numbers: those that decide, those that only save work, those of a person's eye.
const FILES: [&str; 3] = ["thresholds.rs", "cost.rs", "readable.rs"];

/// How the name of another constant ends that is a number: it says what it bounds, or its unit.
const BOUNDS: [&str; 5] = ["_MAX", "_MIN", "_COLUMNS", "_BYTES", "LATEST_NS"];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the sources are there") {
        let path = entry.expect("readable").path();
        match path.is_dir() {
            true => sources(&path, found),
            false => found.push(path),
        }
    }
}

/// Whether code has a literal like `20_000_000` or `0.25`.
fn has_number(code: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    code.split(|c| !part(c)).any(|word| {
        let is_hex = word.starts_with("0x");
        let long =
            word.contains("_000") && !is_hex && word.starts_with(|c: char| c.is_ascii_digit());
        let part = word.strip_prefix("0.").is_some_and(|rest| {
            rest.chars().all(|c| c.is_ascii_digit()) && rest.contains(|c| c != '0')
        });
        long || part
    })
}

/// Whether code declares a number whose name does not say that it is a bound.
fn is_unnamed(code: &str) -> bool {
    let declared = code.trim_start().trim_start_matches("pub ").trim_start_matches("pub(crate) ");
    let Some((name, rest)) = declared.strip_prefix("const ").and_then(|rest| rest.split_once(": "))
    else {
        return false;
    };
    let of = rest.split([' ', ';', '=']).next().unwrap_or_default();
    let is_number = ["u8", "u16", "u32", "u64", "usize", "f64"].contains(&of);
    is_number && !BOUNDS.iter().any(|end| name.ends_with(end))
}

#[test]
fn no_other_file_has_one() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    sources(&crates.join("analysis/src"), &mut files);
    sources(&crates.join("diagnosis/src"), &mut files);
    sources(&crates.join("report/src"), &mut files);
    let mut wrong = BTreeSet::new();
    for file in files.iter().filter(|f| !FILES.iter().any(|name| f.ends_with(name))) {
        let text = std::fs::read_to_string(file).expect("readable");
        let code = text.lines().take_while(|line| !line.starts_with("#[cfg(test)]"));
        for line in code {
            let code = line.split("//").next().unwrap_or_default();
            let other = OTHERS.iter().any(|(name, _)| code.contains(name));
            if (has_number(code) && !other) || is_unnamed(code) {
                wrong.insert(format!("{}: {}", file.display(), line.trim()));
            }
        }
    }
    let wrong: Vec<String> = wrong.into_iter().collect();
    assert!(is_unnamed("pub const NEAR: u64 = 5;") && is_unnamed("    const MOST: f64 = 0.1;"));
    assert!(
        !is_unnamed("const NEAR_MAX: usize = 5;") && !is_unnamed("const NAMES: &[&str] = &[];")
    );
    assert!(
        wrong.is_empty(),
        "wanted a row of analysis::thresholds, or the name of a bound:\n{}",
        wrong.join("\n")
    );
    assert!(has_number("x > 20_000_000") && has_number("y < 0.25") && !has_number("a.0.b, 0.0"));
}

#[test]
fn each_has_a_name_of_its_own_and_a_reason() {
    let names: BTreeSet<&str> = ALL.iter().map(|threshold| threshold.name).collect();
    assert_eq!(names.len(), ALL.len());
    assert!(ALL.len() <= THRESHOLDS_MAX, "{} thresholds, at most {THRESHOLDS_MAX}", ALL.len());
    for threshold in ALL {
        assert!(
            threshold.why.trim().ends_with(['.', ':']),
            "{}: {}",
            threshold.name,
            threshold.why
        );
    }
}
