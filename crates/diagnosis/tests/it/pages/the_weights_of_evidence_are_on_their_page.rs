//! docs/internals/evidence.md has each inference with its weight and why it is that.

use diagnosis::evidence::{most, Role, Weight, TABLE};

const PAGE: &str = include_str!("../../../../../docs/internals/evidence.md");

#[test]
fn each_row_of_the_table_is_a_row_of_the_page_and_there_is_no_other() {
    let weights = PAGE.split("\n### ").next().unwrap_or_default();
    let mut rows = weights.lines().filter(|line| line.starts_with("| `"));
    for row in TABLE {
        let cells: Vec<&str> = rows.next().unwrap_or_default().split('|').map(str::trim).collect();
        let says = match row.role {
            Role::Holder => "has it",
            Role::Waker => "ended the wait",
        };
        let weight = analysis::readable::thousands(most(row.by) as u64);
        let weight = match row.weight {
            Weight::Fact(_) | Weight::Fixed(_) => weight,
            Weight::Measured(_) => format!("up to {weight}"),
        };
        let id = format!("`{}`", row.by.id());
        assert_eq!(cells, ["", &id, says, &weight, row.why, ""]);
    }
    assert_eq!(rows.next(), None);
}
