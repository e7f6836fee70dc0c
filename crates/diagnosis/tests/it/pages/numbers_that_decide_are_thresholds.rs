//! Every number that decides a verdict is in `analysis::thresholds`: no other file of the analysis
//! or the diagnosis has a length of time or a part of something, but for bounds of cost and words.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use analysis::thresholds::ALL;

/// At most so many: each is one more thing to understand.
const THRESHOLDS_MAX: usize = 45;

/// Numbers that decide nothing, with the reason.
const OTHERS: &[(&str, &str)] = &[
    ("const YOUNG_NS", "the sampler's own limit, for the states of threads"),
    ("const FIRST_SPAN_NS", "how far is searched at first: cost"),
    ("const NEAR_NS", "how far is searched at first: cost"),
    ("const SHORT_WAITS_NS", "of waits in one such time one is asked about: cost"),
    ("const SLIVER", "length of an explanation"),
    ("const HARDLY_ANY", "words"),
    ("thresholds::storage_kib()", "a unit"),
    ("epoch_ns", "a unit"),
];

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

#[test]
fn no_other_file_has_one() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    sources(&crates.join("analysis/src"), &mut files);
    sources(&crates.join("diagnosis/src"), &mut files);
    let mut wrong = BTreeSet::new();
    for file in
        files.iter().filter(|f| !f.ends_with("thresholds.rs") && !f.ends_with("readable.rs"))
    {
        let text = std::fs::read_to_string(file).expect("readable");
        let code = text.lines().take_while(|line| !line.starts_with("#[cfg(test)]"));
        for line in code {
            let code = line.split("//").next().unwrap_or_default();
            let other = OTHERS.iter().any(|(name, _)| code.contains(name));
            if has_number(code) && !other {
                wrong.insert(format!("{}: {}", file.display(), line.trim()));
            }
        }
    }
    let wrong: Vec<String> = wrong.into_iter().collect();
    assert!(wrong.is_empty(), "wanted a row of analysis::thresholds:\n{}", wrong.join("\n"));
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
