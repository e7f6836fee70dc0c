//! The Rust of README.md is examples/billy.rs, which every test run compiles.
#![allow(clippy::expect_used, missing_docs)]

#[test]
fn the_readme_has_the_example_word_for_word() {
    let readme = include_str!("../../../README.md");
    let example = include_str!("../examples/billy.rs");
    let (_, code) = example.split_once("\n\n").expect("a line of documentation, then code");
    assert!(readme.contains(&format!("```rust\n{code}```")), "wanted in README.md:\n{code}");
}
