//! Where `"x"` is a name.
//!
//! In the standard it always is; in MySQL, and in SQLite where there is no such column, it is a
//! text. So it is taken as a name only where a text would be an error: beside a dot, behind FROM,
//! JOIN, INTO and their like, in the list of columns of an INSERT, on the left in SET. Elsewhere it
//! becomes a `?`, as `"b"` in `ON "a".id = "b"`: a name is lost rather than a value shown.

use super::lexer::Token;

/// What the tokens so far say about the next one.
#[derive(Default)]
pub(super) struct Names {
    place: Place,
    /// The last token was a dot.
    is_behind_dot: bool,
    /// The last word was DISTINCT: `IS DISTINCT FROM x`.
    is_distinct: bool,
    /// Open brackets; a bit for each that began with SELECT.
    queries: u64,
    depth: u32,
    /// The depth of the list of SET, while it lasts.
    assigned: Option<u32>,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Place {
    /// Where a value may be.
    #[default]
    Values,
    /// Tables and their aliases.
    Tables,
    /// The alias of anything else.
    Alias,
    /// The table of an INSERT.
    Inserted,
    /// In the list of columns behind it.
    Columns,
    /// On the left in SET.
    Assigned,
}

/// Of deeper brackets it is not known whether they began with SELECT.
const DEEPEST: u32 = 63;

impl Names {
    /// Whether the token in double quotes that comes now is a name; `rest` is the text behind it.
    pub(super) fn is_name(&self, rest: &str) -> bool {
        let behind = rest.trim_start();
        match self.place {
            _ if self.is_behind_dot || behind.starts_with('.') => true,
            Place::Values => false,
            Place::Assigned => behind.starts_with('='),
            Place::Tables | Place::Alias | Place::Inserted | Place::Columns => true,
        }
    }

    /// A token has passed.
    pub(super) fn see(&mut self, token: Token<'_>) {
        self.is_behind_dot = token == Token::Sign('.');
        if self.place == Place::Alias {
            self.place = Place::Values;
        }
        match token {
            Token::Word(word) => self.word(word),
            Token::Sign('(') => self.open(),
            Token::Sign(')') => self.close(),
            Token::Sign(',') if self.assigned == Some(self.depth) => self.place = Place::Assigned,
            Token::Sign('.' | ',') => {}
            // Behind an operator comes a value.
            Token::Sign(_) => self.place = Place::Values,
            Token::Value | Token::Quoted(_) => {}
        }
    }

    fn word(&mut self, word: &str) {
        let is = |keyword: &str| word.eq_ignore_ascii_case(keyword);
        let is_any = |keywords: &[&str]| keywords.iter().any(|keyword| is(keyword));
        if is("as") {
            if self.place == Place::Values {
                self.place = Place::Alias;
            }
        } else if is_any(&["from", "join", "update", "table"]) {
            // TRIM(x FROM y) is no query.
            let is_query = self.depth == 0 || self.is_query() || !is("from");
            self.place = match is_query && !self.is_distinct {
                true => Place::Tables,
                false => Place::Values,
            };
        } else if is("into") {
            self.place = Place::Inserted;
        } else if is("set") {
            (self.place, self.assigned) = (Place::Assigned, Some(self.depth));
        } else if is_any(&ENDS) {
            self.place = Place::Values;
            self.assigned = None;
        }
        if is("select") && self.depth <= DEEPEST {
            self.queries |= 1 << self.depth;
        }
        self.is_distinct = is("distinct");
    }

    fn is_query(&self) -> bool {
        self.depth <= DEEPEST && self.queries >> self.depth & 1 == 1
    }

    fn open(&mut self) {
        self.depth += 1;
        if self.depth <= DEEPEST {
            self.queries &= !(1 << self.depth);
        }
        self.place = match self.place {
            Place::Inserted => Place::Columns,
            _ => Place::Values,
        };
    }

    fn close(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.place = Place::Values;
    }
}

/// Words behind which values may come.
const ENDS: [&str; 22] = [
    "where",
    "on",
    "using",
    "group",
    "order",
    "having",
    "limit",
    "offset",
    "values",
    "value",
    "select",
    "union",
    "returning",
    "when",
    "then",
    "else",
    "outfile",
    "dumpfile",
    "call",
    "and",
    "or",
    "key",
];
