//! 300 fixed seeds, both kernel modes in turn, against `goals.toml`.

use sim::judge::goals::{missed, seeds, GOALS};
use sim::judge::table::{is_with_switches_in_turn, run, Scope, MODES};

#[test]
fn with_switch_records_it_is_as_right_as_goals_toml_wants() {
    check_mode(0, |_| true);
}

#[test]
fn without_switch_records_it_is_as_right_as_goals_toml_wants() {
    check_mode(1, |seed| seed < HALF);
}

#[test]
fn without_switch_records_other_seeds_and_their_twins_are_as_goals_toml_wants() {
    check_mode(1, |seed| seed >= HALF);
}

/// Without switch records samples are many, and judging them takes twice as long.
const HALF: u64 = 150;

/// Judges the fixed seeds that are this mode's turn, and these.
fn check_mode(mode: usize, these: impl Fn(u64) -> bool) {
    let mut seeds = seeds(GOALS).unwrap().all();
    seeds.retain(|seed| is_with_switches_in_turn(*seed) == (mode == 0));
    seeds.retain(|seed| these(*seed));
    let tables = run(&seeds, 2, Scope::InTurn, &|| false).unwrap();
    let name = MODES[mode].0;
    let mut missed = missed(GOALS, &tables).unwrap();
    missed.retain(|line| line.starts_with(&format!("switch records {name}:")));
    assert!(missed.is_empty(), "{}\n\n{}", missed.join("\n"), tables[mode].text(name));
}

#[test]
fn a_goal_that_is_too_high_is_missed_and_a_line_that_is_none_is_refused() {
    let tables = run(&[1, 2], 1, Scope::Whole, &|| false).unwrap();
    let missed_all = missed("[on]\ncause = 101\n[off]\ntwins = 101", &tables).unwrap();
    assert_eq!(missed_all.len(), 2, "{missed_all:?}");
    assert!(missed("[on]\ncause is 3", &tables).unwrap_err().contains("wanted `key = number`"));
    assert!(missed("[on]\nluck = 3", &tables).unwrap_err().contains("wanted a figure"));
}
