//! Joins two rows of a time that the border between two parts of a capture divided.
//!
//! How it works: rows of one thread come by time. If a row ends at a border, the next one begins
//! there, and their columns do not contradict each other, they are one row.

use std::collections::BTreeSet;

use crate::cell::Column;
use crate::halt::Halt;
use crate::spool::Value;

/// What becomes of each column; the times are added up, and of the others the first known value
/// stays.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Join {
    /// Have to be equal.
    pub(crate) same: &'static [&'static str],
    /// Have to be equal, unless one is NULL.
    pub(crate) agree: &'static [&'static str],
    /// True if one is.
    pub(crate) any: &'static [&'static str],
    /// Are those of the row in which the middle of the joined row lies.
    pub(crate) middle: &'static [&'static str],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    Same,
    Agree,
    Any,
    Middle,
    First,
    Begin,
    End,
    Duration,
}

/// A row that may go on, and the rows that it was joined of if their middle matters.
struct Pending {
    key: u64,
    row: Vec<Value>,
    /// The last, if it is of more than one.
    parts: Vec<Vec<Value>>,
}

/// Joins the rows of a table.
pub(crate) struct Joiner<'b> {
    rules: Vec<Rule>,
    begin: usize,
    end: usize,
    borders: &'b BTreeSet<i64>,
    pending: Option<Pending>,
}

type Each<'e> = dyn FnMut(Vec<Value>) -> Result<(), Halt> + 'e;

impl<'b> Joiner<'b> {
    pub(crate) fn new(columns: &[Column], join: &Join, borders: &'b BTreeSet<i64>) -> Joiner<'b> {
        let rule = |column: &Column| match column.name {
            "begin_ns" => Rule::Begin,
            "end_ns" => Rule::End,
            "duration_ns" => Rule::Duration,
            name if join.same.contains(&name) => Rule::Same,
            name if join.agree.contains(&name) => Rule::Agree,
            name if join.any.contains(&name) => Rule::Any,
            name if join.middle.contains(&name) => Rule::Middle,
            _ => Rule::First,
        };
        let rules: Vec<Rule> = columns.iter().map(rule).collect();
        let of = |rule| rules.iter().position(|r| *r == rule).unwrap_or_default();
        let (begin, end) = (of(Rule::Begin), of(Rule::End));
        Joiner { rules, begin, end, borders, pending: None }
    }

    /// Takes the next row; calls `each` with the row before, once it is whole.
    pub(crate) fn take(
        &mut self,
        key: u64,
        row: Vec<Value>,
        each: &mut Each<'_>,
    ) -> Result<(), Halt> {
        if let Some(mut pending) = self.pending.take() {
            if pending.key == key && self.goes_on(&pending.row, &row) {
                if pending.parts.is_empty() {
                    pending.parts.push(pending.row.clone());
                }
                self.add(&mut pending.row, &row);
                pending.parts.push(row);
                self.pending = Some(pending);
                return Ok(());
            }
            each(self.whole(pending))?;
        }
        self.pending = Some(Pending { key, row, parts: Vec::new() });
        Ok(())
    }

    /// There are no more rows.
    pub(crate) fn finish(&mut self, each: &mut Each<'_>) -> Result<(), Halt> {
        self.pending.take().map_or(Ok(()), |pending| each(self.whole(pending)))
    }

    fn goes_on(&self, a: &[Value], b: &[Value]) -> bool {
        let at_border = matches!(&a[self.end], Value::Int(end) if self.borders.contains(end));
        let columns = self.rules.iter().zip(a.iter().zip(b));
        let mut columns = columns.map(|(rule, (a, b))| match rule {
            Rule::Same => a == b,
            Rule::Agree => a == b || *a == Value::Null || *b == Value::Null,
            _ => true,
        });
        at_border && a[self.end] == b[self.begin] && columns.all(|agrees| agrees)
    }

    fn add(&self, row: &mut [Value], next: &[Value]) {
        for (rule, (a, b)) in self.rules.iter().zip(row.iter_mut().zip(next)) {
            match (rule, &*a, b) {
                (Rule::End, ..) | (_, Value::Null, _) => a.clone_from(b),
                (Rule::Duration, Value::Int(first), Value::Int(second)) => {
                    *a = Value::Int(first.saturating_add(*second));
                }
                (Rule::Any, Value::Bool(first), Value::Bool(second)) => {
                    *a = Value::Bool(*first || *second);
                }
                _ => (),
            }
        }
    }

    fn whole(&self, pending: Pending) -> Vec<Value> {
        let Pending { mut row, parts, .. } = pending;
        let (Value::Int(begin), Value::Int(end)) = (&row[self.begin], &row[self.end]) else {
            return row;
        };
        let middle = begin + (end - begin) / 2;
        let holds = |part: &&Vec<Value>| matches!(part[self.end], Value::Int(end) if end > middle);
        if let Some(part) = parts.iter().find(holds) {
            for (at, rule) in self.rules.iter().enumerate() {
                if *rule == Rule::Middle {
                    row[at] = part[at].clone();
                }
            }
        }
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{always, maybe, Kind};

    const COLUMNS: [Column; 7] = [
        always("begin_ns", Kind::Int, ""),
        always("end_ns", Kind::Int, ""),
        always("duration_ns", Kind::Int, ""),
        always("kind", Kind::Text, ""),
        maybe("stack_id", Kind::Int, ""),
        maybe("request_id", Kind::Int, ""),
        always("is_sampled", Kind::Bool, ""),
    ];
    const JOIN: Join = Join {
        same: &["kind"],
        agree: &["stack_id"],
        any: &["is_sampled"],
        middle: &["request_id"],
    };

    fn row(times: (i64, i64), kind: &str, stack: i64, request: i64, sampled: bool) -> Vec<Value> {
        let id = |id| if id == 0 { Value::Null } else { Value::Int(id) };
        let (from, to) = (Value::Int(times.0), Value::Int(times.1));
        let (took, kind) = (Value::Int(times.1 - times.0), Value::Text(kind.into()));
        vec![from, to, took, kind, id(stack), id(request), Value::Bool(sampled)]
    }

    fn joined(rows: &[(u64, Vec<Value>)]) -> Vec<Vec<Value>> {
        let borders = [100, 200].into();
        let (mut joiner, mut out) = (Joiner::new(&COLUMNS, &JOIN, &borders), Vec::new());
        let mut each = |row| {
            out.push(row);
            Ok(())
        };
        for (key, row) in rows {
            joiner.take(*key, row.clone(), &mut each).expect("memory");
        }
        joiner.finish(&mut each).expect("memory");
        out
    }

    #[test]
    fn a_time_over_two_borders_is_one_row_with_the_request_of_its_middle() {
        let (a, b) = (row((90, 100), "poll", 0, 1, false), row((100, 200), "poll", 5, 2, true));
        let c = row((200, 220), "poll", 5, 3, false);
        let whole = row((90, 220), "poll", 5, 2, true);
        assert_eq!(joined(&[(1, a), (1, b), (1, c)]), [whole]);
    }

    #[test]
    fn rows_that_contradict_each_other_or_touch_elsewhere_stay_two() {
        let first = row((90, 100), "poll", 4, 0, true);
        for (key, second) in [
            (1, row((100, 110), "sleep", 4, 0, true)),
            (1, row((100, 110), "poll", 5, 0, true)),
            (1, row((101, 110), "poll", 4, 0, true)),
            (2, row((100, 110), "poll", 4, 0, true)),
        ] {
            assert_eq!(joined(&[(1, first.clone()), (key, second)]).len(), 2);
        }
        let (a, b) = (row((90, 99), "poll", 4, 0, true), row((99, 110), "poll", 4, 0, true));
        assert_eq!(joined(&[(1, a), (1, b)]).len(), 2, "no border");
    }
}
