//! Whatever the values of a program are, and in whichever dialect they are written, no part of them
//! is in the shape of a statement. Statements are drawn and, if one fails, made small.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngSeed};
use recorder::statement::{shape, LONGEST};

/// In every value.
const SECRET: &str = "sesame";

/// Statements with a place for each value. Some are legal in one dialect only; `"` are names.
const STATEMENTS: [&str; 24] = [
    "SELECT a FROM t WHERE b = V AND c = V",
    "SELECT * FROM t AS x, y WHERE x.a IN (V, V, V) OR y.b LIKE V LIMIT 5",
    "SELECT V, a AS b FROM t",
    "SELECT a FROM t WHERE b = (SELECT c AS d, V FROM u WHERE e <> V)",
    "SELECT a FROM \"t\" JOIN \"u\" ON \"t\".\"id\" = \"u\".\"id\" AND \"u\".n = V",
    "INSERT INTO t (a, b) VALUES (V, V), (V, V)",
    "INSERT INTO \"t\" (\"a\", \"b\") VALUES (V, V) RETURNING a",
    "INSERT INTO t SET a = V, b = f(V, V)",
    "INSERT INTO t SELECT V, V",
    "INSERT INTO t VALUES (V) ON DUPLICATE KEY UPDATE a = V, b = V",
    "REPLACE INTO t VALUES (V,V)",
    "UPDATE t SET a = V, \"b\" = V WHERE c = V",
    "UPDATE t SET a = V || V, b = lower(V) WHERE V = c OR d BETWEEN V AND V",
    "DELETE FROM t WHERE a = V ORDER BY V",
    "WITH x AS (SELECT a FROM t WHERE b = V) SELECT c FROM x WHERE d = V",
    "SELECT a FROM t WHERE TRIM(BOTH V FROM V) = V",
    "SELECT a FROM t WHERE b IS DISTINCT FROM V",
    "SELECT a FROM t WHERE CASE WHEN b = V THEN V ELSE V END = V",
    "CALL p(V, V)",
    "EXEC p V, V",
    "CREATE USER u IDENTIFIED BY V",
    "SELECT a FROM t WHERE b->>V = V AND c#>>V = V",
    "/* by app */ SELECT a -- note\n FROM t WHERE b = V /* end */ AND c = V",
    "SELECT a FROM t WHERE b = V UNION ALL SELECT c FROM u WHERE d = V",
];

/// What dialects read in their own ways.
const SIGNS: [&str; 27] = [
    "'", "\"", "\\", "`", "$", "$$", "$t$", "--", "/*", "*/", "#", "%s", ")", "(", ",", ".", ":",
    "[", "]'", "!'", "\n", " ", "=", "ü", "1", "FROM ", " AS ",
];

#[derive(Clone, Copy, Debug)]
enum Dialect {
    /// The standard's: a quote is doubled, a backslash is a character.
    Standard,
    /// MySQL's: a backslash escapes; texts also in double quotes.
    MySql,
    PostgreSql,
    Oracle,
}

/// A value as a literal.
fn literal(dialect: Dialect, how: u8, value: &str) -> String {
    let doubled = |quote: char| value.replace(quote, &format!("{quote}{quote}"));
    let escaped = |quote: char| value.replace('\\', "\\\\").replace(quote, &format!("\\{quote}"));
    match (dialect, how % 4) {
        (Dialect::MySql, 0) => format!("\"{}\"", escaped('"')),
        (Dialect::MySql, 1) => format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\"\"")),
        (Dialect::MySql, 2) => format!("'{}'", value.replace('\\', "\\\\").replace('\'', "''")),
        (Dialect::MySql, _) => format!("'{}'", escaped('\'')),
        (Dialect::PostgreSql, 0) => format!("E'{}'", escaped('\'')),
        (Dialect::PostgreSql, 1) if !value.contains("$$") && !value.ends_with('$') => {
            format!("$${value}$$")
        }
        (Dialect::PostgreSql, 2) if !value.contains("$t$") && !value.ends_with("$t") => {
            format!("$t${value}$t$")
        }
        (Dialect::Oracle, 0) if !value.contains("]'") => format!("q'[{value}]'"),
        (Dialect::Oracle, 1) if !value.contains("!'") => format!("nq'!{value}!'"),
        (_, 3) => format!("N'{}'", doubled('\'')),
        _ => format!("'{}'", doubled('\'')),
    }
}

/// Values: the secret between signs.
fn values() -> impl Strategy<Value = String> {
    let signs = || vec(select(&SIGNS[..]), 0..4).prop_map(|some| some.concat());
    (signs(), signs()).prop_map(|(before, behind)| format!("{before}{SECRET}{behind}"))
}

fn dialects() -> impl Strategy<Value = Dialect> {
    select(&[Dialect::Standard, Dialect::MySql, Dialect::PostgreSql, Dialect::Oracle][..])
}

/// A statement with values in it.
fn statements() -> impl Strategy<Value = String> {
    let written = vec((values(), any::<u8>()), 6);
    (dialects(), select(&STATEMENTS[..]), written).prop_map(|(dialect, statement, written)| {
        let mut text = String::new();
        let mut written = written.iter().cycle();
        for (at, part) in statement.split('V').enumerate() {
            // VALUES has the letter, too.
            let is_value = at > 0 && !part.starts_with("ALUES");
            match written.next() {
                Some((value, how)) if is_value => text += &literal(dialect, *how, value),
                _ if at > 0 => text.push('V'),
                _ => {}
            }
            text += part;
        }
        text
    })
}

/// The same cases on every machine.
fn config(cases: u32) -> Config {
    Config { cases, rng_seed: RngSeed::Fixed(26), failure_persistence: None, ..Config::default() }
}

proptest! {
    #![proptest_config(config(3_000))]

    #[test]
    fn no_part_of_a_literal_is_shown(statement in statements()) {
        let shape = shape(&statement);
        prop_assert!(!shape.contains(SECRET), "{statement}\n  -> {shape}");
    }

    #[test]
    fn a_statement_that_ends_anywhere_shows_nothing_either(statement in statements(), at in any::<prop::sample::Index>()) {
        let mut end = at.index(statement.len() + 1);
        while !statement.is_char_boundary(end) {
            end -= 1;
        }
        let shape = shape(&statement[..end]);
        prop_assert!(!shape.contains(SECRET), "{}\n  -> {shape}", &statement[..end]);
    }

    #[test]
    fn any_text_has_a_bounded_shape(text in "[sS'\"`$%:?(),;/*.\\\\ \\n0a=#qE\\-ü]{0,60}|\\PC{0,200}") {
        prop_assert!(shape(&text).len() <= LONGEST);
    }
}
