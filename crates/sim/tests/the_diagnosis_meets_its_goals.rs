//! 300 fixed seeds, both kernel modes in turn, against `goals.toml`.

use sim::judge::goals::{missed, seeds, GOALS};
use sim::judge::table::{run, Scope, MODES};

#[test]
fn the_diagnosis_is_as_right_as_goals_toml_wants() {
    let seeds = seeds(GOALS).unwrap();
    let tables = run(&seeds.all(), 2, Scope::InTurn, &|| false).unwrap();
    let missed = missed(GOALS, &tables).unwrap();
    let shown: Vec<String> =
        tables.iter().zip(MODES).map(|(table, (mode, _))| table.text(mode)).collect();
    assert!(missed.is_empty(), "{}\n\n{}", missed.join("\n"), shown.join("\n"));
}

#[test]
fn a_goal_that_is_too_high_is_missed_and_a_line_that_is_none_is_refused() {
    let tables = run(&[1, 2], 1, Scope::Whole, &|| false).unwrap();
    let missed_all = missed("[on]\ncause = 101\n[off]\ntwins = 101", &tables).unwrap();
    assert_eq!(missed_all.len(), 2, "{missed_all:?}");
    assert!(missed("[on]\ncause is 3", &tables).unwrap_err().contains("wanted `key = number`"));
    assert!(missed("[on]\nluck = 3", &tables).unwrap_err().contains("wanted a figure"));
}
