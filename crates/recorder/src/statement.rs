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
//! What it promises: no value of the program is in the result, whatever quotes are open where the
//! text ends; at most `LONGEST` bytes, cut at a character; linear in the text's length, of which
//! `READ` bytes are read.
//!
//! Missing on purpose: a grammar. A dialect that quotes by other means than `'`, `"`, a backtick
//! and PostgreSQL's `$tag$` is read as words.

/// At most this many bytes of a shape; what is cut ends with `...`.
pub const LONGEST: usize = 120;
/// Of a statement only this much is read.
const READ: usize = 4096;

/// The shape of a statement.
pub fn shape(statement: &str) -> String {
    let mut text = statement;
    if text.len() > READ {
        text = &text[..(0..=READ).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)];
    }
    let mut shape = Shape { out: String::new(), columns: Columns::Unknown, depth: 0 };
    let mut rest = text;
    while let Some(token) = next(&mut rest) {
        if !shape.add(token) {
            break;
        }
    }
    shape.done()
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Token<'a> {
    /// A value, or the place of one.
    Value,
    /// A word: a keyword, or a name with its quotes.
    Word(&'a str),
    /// Any other character.
    Sign(char),
}

/// The next token, past spaces and comments; None at the end.
fn next<'a>(rest: &mut &'a str) -> Option<Token<'a>> {
    loop {
        *rest = rest.trim_start();
        let skipped = match rest.as_bytes() {
            [b'-', b'-', ..] => rest.find('\n').unwrap_or(rest.len()),
            [b'/', b'*', ..] => rest.find("*/").map_or(rest.len(), |at| at + 2),
            _ => break,
        };
        *rest = &rest[skipped..];
    }
    let first = rest.chars().next()?;
    let behind = rest.chars().nth(1);
    let (token, length) = match first {
        '\'' => (Token::Value, quoted(rest, '\'')),
        // MySQL's strings and PostgreSQL's names; as a name where it can be one.
        '"' | '`' => name_or_value(rest, first),
        '$' if behind.is_some_and(|c| c.is_ascii_digit()) => (Token::Value, 1 + word(&rest[1..])),
        '$' => (Token::Value, dollar_quoted(rest)),
        '%' if behind == Some('s') => (Token::Value, 2),
        '%' if behind == Some('(') => {
            (Token::Value, rest.find(")s").map_or(rest.len(), |at| at + 2))
        }
        '?' => (Token::Value, 1),
        ':' if behind.is_some_and(is_of_word) => (Token::Value, 1 + word(&rest[1..])),
        // A cast of PostgreSQL.
        ':' if behind == Some(':') => (Token::Sign(' '), 2 + word(&rest[2..])),
        c if c.is_ascii_digit() => (Token::Value, number(rest)),
        // E'...', N'...', X'...': the prefix belongs to the value.
        c if c.is_ascii_alphabetic() && behind == Some('\'') => {
            (Token::Value, 1 + quoted(&rest[1..], '\''))
        }
        c if is_of_word(c) => {
            let length = word(rest);
            (Token::Word(&rest[..length]), length)
        }
        c => (Token::Sign(c), c.len_utf8()),
    };
    *rest = rest.get(length..).unwrap_or("");
    Some(token)
}

fn is_of_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// The length of the word at the start, with dots inside of it.
fn word(text: &str) -> usize {
    let is_end = |(at, c): &(usize, char)| {
        let next = text[at + c.len_utf8()..].chars().next();
        !(is_of_word(*c) || *c == '.' && next.is_some_and(is_of_word))
    };
    text.char_indices().find(is_end).map_or(text.len(), |(at, _)| at)
}

/// The length of the number at the start: `1.5e-3`, `0xff`.
fn number(text: &str) -> usize {
    let length = word(text);
    match text[..length].ends_with(['e', 'E']) && text[length..].starts_with(['-', '+']) {
        true => length + 1 + word(&text[length + 1..]),
        false => length,
    }
}

/// The length of what is quoted at the start, a doubled or escaped quote inside of it included; to
/// the end of the text if it is not closed.
fn quoted(text: &str, quote: char) -> usize {
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c == '\\' {
            chars.next();
        } else if c == quote {
            match chars.peek() {
                Some((_, next)) if *next == quote => drop(chars.next()),
                _ => return at + 1,
            }
        }
    }
    text.len()
}

fn name_or_value(text: &str, quote: char) -> (Token<'_>, usize) {
    let length = quoted(text, quote);
    let inner = text[..length].trim_matches(quote);
    let is_name = !inner.is_empty() && inner.len() < 64 && inner.chars().all(is_of_word);
    let is_closed = length >= 2 && text[..length].ends_with(quote);
    match is_name && is_closed && !inner.starts_with(|c: char| c.is_ascii_digit()) {
        true => (Token::Word(&text[..length]), length),
        false => (Token::Value, length),
    }
}

/// The length of `$tag$...$tag$`; to the end of the text if it is not closed.
fn dollar_quoted(text: &str) -> usize {
    let Some(tag) = text[1..].find('$').map(|at| &text[..at + 2]) else { return text.len() };
    match text[tag.len()..].find(tag) {
        Some(at) => tag.len() + at + tag.len(),
        None => text.len(),
    }
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
}

impl Shape {
    /// False: nothing further will be in the shape.
    fn add(&mut self, token: Token<'_>) -> bool {
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
            Token::Value => self.value(),
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
        let mut random = testkit::Random::new(7);
        let signs: Vec<char> = "sS'\"`$%:?(),;-/*.\\ \n0a=ü".chars().collect();
        for _ in 0..20_000 {
            let length = random.below(40) as usize;
            let text: String =
                (0..length).map(|_| signs[random.below(signs.len() as u64) as usize]).collect();
            assert!(shape(&text).len() <= LONGEST, "{text:?}");
        }
    }
}
