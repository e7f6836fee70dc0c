//! The Rust of docs/guide/rust.md is examples/billy.rs, which every test run compiles.
#![allow(clippy::expect_used, missing_docs)]

#[test]
fn the_guide_has_the_example_word_for_word() {
    let guide = include_str!("../../../docs/guide/rust.md");
    let example = include_str!("../examples/billy.rs");
    let (_, code) = example.split_once("\n\n").expect("a line of documentation, then code");
    let wanted = format!("```rust\n{code}```");
    assert!(guide.contains(&wanted), "wanted in docs/guide/rust.md:\n{code}");
}
