//! A statement's text in tokens, for all usual dialects at once.
//!
//! What it promises: no part of a literal is in a token that is shown. Where one dialect ends a
//! literal or a comment and another goes on, the rest of the text belongs to it.

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Token<'a> {
    /// A value, or the place of one.
    Value,
    /// A word: a keyword, or a name, in backticks or without quotes.
    Word(&'a str),
    /// A name or a text in double quotes, with them.
    Quoted(&'a str),
    /// Any other character.
    Sign(char),
}

/// The next token, past spaces and comments; None at the end.
pub(super) fn next<'a>(rest: &mut &'a str) -> Option<Token<'a>> {
    loop {
        *rest = rest.trim_start();
        let skipped = match rest.as_bytes() {
            [b'-', b'-', ..] => rest.find('\n').unwrap_or(rest.len()),
            [b'/', b'*', ..] => comment(rest),
            // A comment of MySQL; PostgreSQL has operators `#>`, `#-`, `#=`, and xor.
            [b'#', after, ..] if !b">-=".contains(after) => rest.find('\n').unwrap_or(rest.len()),
            _ => break,
        };
        *rest = &rest[skipped..];
    }
    let first = rest.chars().next()?;
    let behind = rest.chars().nth(1);
    let (token, length) = match first {
        '\'' => (Token::Value, quoted(rest, Escapes::Unknown)),
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
        c if is_of_word(c) => word_or_prefix(rest),
        c => (Token::Sign(c), c.len_utf8()),
    };
    *rest = rest.get(length..).unwrap_or("");
    Some(token)
}

/// The length of the comment at the start. PostgreSQL's are nested, others' are not: one that could
/// be is the rest.
fn comment(text: &str) -> usize {
    let Some(end) = text[2..].find("*/").map(|at| 2 + at) else { return text.len() };
    if text[2..end].contains("/*") {
        return text.len();
    }
    end + 2
}

/// A word, or E'...', N'...', X'...': the prefix belongs to the value. So does Oracle's q'[...]'.
fn word_or_prefix(rest: &str) -> (Token<'_>, usize) {
    let length = word(rest);
    let (prefix, behind) = rest.split_at(length);
    if !behind.starts_with('\'') {
        return (Token::Word(prefix), length);
    }
    match prefix {
        "q" | "Q" | "nq" | "nQ" | "Nq" | "NQ" => (Token::Value, length + chosen_quotes(behind)),
        "e" | "E" => (Token::Value, length + quoted(behind, Escapes::Backslash)),
        _ if prefix.len() == 1 => (Token::Value, length + quoted(behind, Escapes::Unknown)),
        _ => (Token::Word(prefix), length),
    }
}

fn is_of_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// The length of the word at the start, with dots and dollars inside of it.
fn word(text: &str) -> usize {
    let is_end = |(at, c): &(usize, char)| {
        let next = text[at + c.len_utf8()..].chars().next();
        let is_inside = *c == '.' && next.is_some_and(is_of_word) || *c == '$' && *at > 0;
        !(is_of_word(*c) || is_inside)
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

/// What a backslash does in a literal.
#[derive(Clone, Copy, PartialEq)]
enum Escapes {
    /// It escapes what follows.
    Backslash,
    /// That depends on the dialect: nothing in the standard.
    Unknown,
}

/// The length of what is quoted at the start, by the quote that is there, doubled or escaped quotes
/// inside of it included; to the end of the text if it is not closed, or if one dialect closes it
/// and another does not.
fn quoted(text: &str, escapes: Escapes) -> usize {
    let bytes = text.as_bytes();
    let (quote, mut at, mut is_escaped) = (bytes[0], 1, false);
    while at < bytes.len() {
        match bytes[at] {
            _ if is_escaped && (escapes == Escapes::Backslash || bytes[at] != quote) => {
                is_escaped = false;
            }
            b if b == quote && is_escaped => return text.len(),
            b if b == quote && bytes.get(at + 1) == Some(&quote) => at += 1,
            b if b == quote => return at + 1,
            b'\\' => is_escaped = true,
            _ => {}
        }
        at += 1;
    }
    text.len()
}

/// The length of `'[...]'`, as Oracle has it behind q: any character and its counterpart.
fn chosen_quotes(text: &str) -> usize {
    let Some(first) = text[1..].chars().next() else { return text.len() };
    let last = match first {
        '[' => ']',
        '(' => ')',
        '{' => '}',
        '<' => '>',
        c => c,
    };
    let begin = 1 + first.len_utf8();
    let end = text[begin..].match_indices(last).map(|(at, _)| begin + at + last.len_utf8());
    // A quote that another dialect would close is behind it: the rest is not read.
    let closed = end.into_iter().find(|end| text[*end..].starts_with('\''));
    match closed {
        Some(end) if !text[begin..end].contains('\'') => end + 1,
        _ => text.len(),
    }
}

/// A name in backticks, something in double quotes that may be a name, or a value.
fn name_or_value(text: &str, quote: char) -> (Token<'_>, usize) {
    let length = quoted(text, Escapes::Unknown);
    let inner = text[..length].trim_matches(quote);
    let is_name = !inner.is_empty() && inner.len() < 64 && inner.chars().all(is_of_word);
    let is_closed = length >= 2 && text[..length].ends_with(quote);
    if !is_name || !is_closed || inner.starts_with(|c: char| c.is_ascii_digit()) {
        return (Token::Value, length);
    }
    match quote {
        '`' => (Token::Word(&text[..length]), length),
        _ => (Token::Quoted(&text[..length]), length),
    }
}

/// The length of PostgreSQL's `$tag$...$tag$`; to the end of the text if it is not closed, or if
/// there are quotes in it, since other dialects have `$` in names. Without a tag it is a sign.
fn dollar_quoted(text: &str) -> usize {
    let tag = 1 + text[1..].find(|c| !is_of_word(c)).unwrap_or(text.len() - 1);
    if !text[tag..].starts_with('$') {
        return tag;
    }
    let (tag, behind) = text.split_at(tag + 1);
    match behind.find(tag) {
        Some(at) if !behind[..at].contains(['\'', '"', '`']) => tag.len() + at + tag.len(),
        _ => text.len(),
    }
}
