//! docs/tables.md lists every table and column of the schemas.

use std::collections::BTreeSet;
use std::path::Path;

#[test]
fn docs_tables_md_ends_with_what_the_schemas_say() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tables.md");
    let page = std::fs::read_to_string(page).expect("docs/tables.md");
    let (_, listed) = page.split_once("## Tables and columns\n\n").expect("its last part");
    assert!(
        listed == tables::doc::markdown(),
        "docs/tables.md is not what the schemas say; replace what stands behind \"Tables and \
         columns\" by the output of: cargo run -p dashcam-tables --example doc"
    );
}

#[test]
fn names_are_unique_and_end_with_their_unit() {
    let names: BTreeSet<&str> = tables::all().iter().map(|t| t.name).collect();
    assert_eq!(names.len(), tables::all().len());
    for table in tables::all() {
        let columns: BTreeSet<&str> = table.columns.iter().map(|c| c.name).collect();
        assert_eq!(columns.len(), table.columns.len(), "{}", table.name);
        for column in table.columns {
            let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            assert!(column.name.chars().all(is_name), "{}.{}", table.name, column.name);
            let utc = column.name.ends_with("_utc");
            assert_eq!(utc, column.kind == tables::Kind::Utc, "{}.{}", table.name, column.name);
            assert!(!column.about.contains('|'), "{}.{}", table.name, column.name);
        }
        assert_eq!(tables::named(table.name).map(|t| t.name), Some(table.name));
    }
    assert!(tables::named("nothing").is_none());
}
