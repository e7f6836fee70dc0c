//! The part of docs/tables.md that lists tables and columns, made from the schemas.

use crate::rows;
use crate::Table;

/// Markdown: a section a table, a line a column.
pub fn markdown() -> String {
    rows::all().iter().map(section).collect::<Vec<String>>().join("\n")
}

fn section(table: &Table) -> String {
    let mut out = format!("### {}\n\n{}\n\n", table.name, table.about);
    out += "| column | type | NULL | what it says |\n| --- | --- | --- | --- |\n";
    for column in table.columns {
        let null = if column.nullable { "may be" } else { "never" };
        let (name, kind, about) = (column.name, column.kind.text(), column.about);
        out += &format!("| `{name}` | {kind} | {null} | {about} |\n");
    }
    out
}
