//! The shape of a statement of a database: what it does to what, without any value.
//!
//! How it works: one pass over the text. Literals, parameters and numbers become `?`, a list of
//! them becomes one, comments and line breaks become a space, and of a SELECT the columns go:
//!
//! ```text
//!   SELECT id, sum FROM orders WHERE id IN (1, 2) AND day > '1.1.'   ->
//!   SELECT orders WHERE id IN (?) AND day > ?
//! ```
//!
//! What it promises: no value of the program is in the result, whichever of the usual dialects it
//! is written in and whatever quotes are open where the text ends; at most `LONGEST` bytes, cut at
//! a character; linear in the text's length, of which `READ` bytes are read. Where dialects
//! disagree on the end of a literal or a comment (`'a\'`, `/* /* */`), nothing behind it is read.
//! `"x"` is a text in some of them: it is a name only where no text can be (`names.rs`).
//!
//! Missing on purpose: a grammar. A quote that no usual dialect has is read as a sign.

mod lexer;
mod names;

use lexer::{next, Token};
use names::Names;

/// At most this many bytes of a shape; what is cut ends with `...`.
pub const LONGEST: usize = 120;
/// Of a statement only this much is read, bytes.
pub const READ: usize = 4096;

/// The shape of a statement.
pub fn shape(statement: &str) -> String {
    let mut text = statement;
    if text.len() > READ {
        text = &text[..(0..=READ).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)];
    }
    let mut shape =
        Shape { out: String::new(), columns: Columns::Unknown, depth: 0, names: Names::default() };
    let mut rest = text;
    while let Some(token) = next(&mut rest) {
        if !shape.add(token, rest) {
            break;
        }
    }
    shape.done()
}

#[derive(Clone, Copy, PartialEq)]
enum Columns {
    /// No word has come yet.
    Unknown,
    /// Between SELECT and its FROM, at the depth of 0.
    Skipped,
    /// Written, or no SELECT.
    Written,
}

struct Shape {
    out: String,
    columns: Columns,
    depth: usize,
    names: Names,
}

impl Shape {
    /// Adds a token; `rest` is the text behind it. False: nothing further will be in the shape.
    fn add(&mut self, token: Token<'_>, rest: &str) -> bool {
        let token = match token {
            Token::Quoted(name) if self.names.is_name(rest) => Token::Word(name),
            Token::Quoted(_) => Token::Value,
            token => token,
        };
        self.names.see(token);
        match token {
            Token::Sign('(') => self.depth += 1,
            Token::Sign(')') => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        if self.columns == Columns::Skipped {
            let is_from = matches!(token, Token::Word(w) if w.eq_ignore_ascii_case("from"));
            if is_from && self.depth == 0 {
                self.columns = Columns::Written;
            }
            return true;
        }
        let is_select = matches!(token, Token::Word(w) if w.eq_ignore_ascii_case("select"));
        if self.columns == Columns::Unknown && matches!(token, Token::Word(_)) {
            self.columns = if is_select { Columns::Skipped } else { Columns::Written };
        }
        match token {
            Token::Value | Token::Quoted(_) => self.value(),
            Token::Word(word) => self.put(word),
            Token::Sign(' ' | ';') => {}
            Token::Sign(sign) => self.sign(sign),
        }
        self.out.len() <= LONGEST
    }

    fn value(&mut self) {
        // A list of values is one, and so is a list of such lists.
        if self.out.ends_with("(?,") {
            self.out.pop();
            return;
        }
        self.put("?");
    }

    fn sign(&mut self, sign: char) {
        if sign == ')' && self.out.ends_with("(?), (?") {
            self.out.truncate(self.out.len() - ", (?".len());
            return;
        }
        match sign {
            ',' | ')' | '.' => self.out.push(sign),
            _ if self.out.ends_with(['=', '<', '>', '!', '|', '&', '-']) && sign != '(' => {
                self.out.push(sign);
            }
            _ => self.put(sign.encode_utf8(&mut [0; 4])),
        }
    }

    /// With a space in front where one is to be.
    fn put(&mut self, text: &str) {
        if !self.out.is_empty() && !self.out.ends_with(['(', '.']) {
            self.out.push(' ');
        }
        self.out.push_str(text);
    }

    fn done(mut self) -> String {
        if self.out.len() > LONGEST {
            let room = LONGEST - 3;
            let end = (0..=room).rev().find(|at| self.out.is_char_boundary(*at)).unwrap_or(0);
            self.out.truncate(end);
            self.out.truncate(self.out.trim_end().len());
            self.out.push_str("...");
        }
        self.out
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used)]

    use super::*;

    fn is(statement: &str, wanted: &str) {
        assert_eq!(shape(statement), wanted, "{statement}");
    }

    #[test]
    fn of_a_select_the_table_and_conditions_stay() {
        is("SELECT id, sum FROM orders WHERE id = %s", "SELECT orders WHERE id = ?");
        is(
            "SELECT id FROM orders\n WHERE id IN (1, 2, 3) AND day > '1.1.' -- why\n LIMIT 10",
            "SELECT orders WHERE id IN (?) AND day > ? LIMIT ?",
        );
        is(
            "select count(*), (select max(n) from t) from \"shop\".\"orders\" o join x on o.a=x.a",
            "select \"shop\".\"orders\" o join x on o.a = x.a",
        );
        is("SELECT 1", "SELECT");
        is("", "");
    }

    #[test]
    fn other_statements_keep_their_words() {
        is(
            "INSERT INTO orders (id, note) VALUES (%(id)s, %(note)s), (%(id_1)s, %(note_1)s)",
            "INSERT INTO orders (id, note) VALUES (?)",
        );
        is("UPDATE orders SET n = n + 1 WHERE id=$1;", "UPDATE orders SET n = n + ? WHERE id = ?");
        is("DELETE FROM a.b WHERE x <> :name::text", "DELETE FROM a.b WHERE x <> ?");
        is("/* from app */ BEGIN", "BEGIN");
    }

    #[test]
    fn no_value_is_left_however_it_is_written() {
        for value in [
            "'secret'",
            "'it''s secret'",
            "'it\\'s secret'",
            "E'secret'",
            "N'secret'",
            "$$secret$$",
            "$a$ secret $$ secret $a$",
            "\"secret, with spaces\"",
            "'secret that never ends",
            "$t$ secret that never ends",
            "/* secret that never ends",
            "-- secret",
            "12345",
            "-12345",
            "0x5ec4e7",
            "1.5e-10",
            "\"secret",
        ] {
            let shape = shape(&format!("UPDATE t SET a = {value}"));
            assert!(!shape.contains("secret"), "{value} -> {shape}");
            assert!(!shape.contains(|c: char| c.is_ascii_digit()), "{value} -> {shape}");
            assert!(shape.starts_with("UPDATE t SET a ="), "{value} -> {shape}");
        }
    }

    #[test]
    fn it_is_bounded_and_takes_any_text() {
        let wide = format!("UPDATE {} SET a = 1", "täble_".repeat(1_000));
        assert!(shape(&wide).len() <= LONGEST && shape(&wide).ends_with("..."));
        let many = format!("DELETE FROM t WHERE id IN ({})", vec!["1"; 100_000].join(", "));
        assert!(shape(&many).starts_with("DELETE FROM t WHERE id IN (?"), "{}", shape(&many));
    }
}
