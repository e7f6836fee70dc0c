//! docs/verdict-json.md lists the ids of all inferences, and of all reasons for which a candidate
//! is dropped.

use diagnosis::explain::{Dropped, Inference};

/// The ids in the paragraph that begins so.
fn listed(begin: &str) -> Vec<&'static str> {
    let page = include_str!("../../../../../docs/verdict-json.md");
    let paragraph = page.split("\n\n").find(|part| part.starts_with(begin)).unwrap_or_default();
    let mut ids: Vec<&str> = paragraph.split('`').skip(1).step_by(2).collect();
    ids.sort_unstable();
    ids
}

#[test]
fn every_inference_and_every_reason_is_listed_and_no_other() {
    let mut inferences: Vec<&str> = Inference::ALL.iter().map(|i| i.id()).collect();
    inferences.sort_unstable();
    assert_eq!(listed("Inferences: "), inferences);
    let mut reasons: Vec<&str> = Dropped::ALL.iter().map(|d| d.id()).collect();
    reasons.sort_unstable();
    assert_eq!(listed("Reasons: "), reasons);
}
