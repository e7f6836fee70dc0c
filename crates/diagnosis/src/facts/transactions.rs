//! Transactions of databases, by the statements that threads sent.
//!
//! How it works: a thread's transaction lasts from the first statement that begins one or changes
//! something until the one that ends it, as the program's library reported both
//! (docs/integrations.md).
//!
//! What it promises: of a transaction without an end nothing is said: a statement that changes
//! something need not be in one. Missing on purpose: connections. A thread that uses several at
//! once is taken for one that uses one.

use std::collections::BTreeMap;

use capture::read::{Capture, StatementKind};

use crate::memo::Transaction;

/// The transactions of a capture, by thread and begin.
pub(crate) fn of(capture: &Capture) -> Vec<Transaction> {
    let mut open: BTreeMap<u32, u64> = BTreeMap::new();
    let mut found = Vec::new();
    for row in &capture.statements {
        let tid = row.tid;
        match row.kind {
            StatementKind::Begins => {
                open.insert(tid, row.begin_ns);
            }
            StatementKind::Changes => {
                open.entry(tid).or_insert(row.begin_ns);
            }
            StatementKind::Ends => {
                let ended = open.remove(&tid);
                let of = |from_ns| Transaction { tid, from_ns, to_ns: row.end_ns };
                found.extend(ended.map(of));
            }
        }
    }
    found.sort_by_key(|t| (t.tid, t.from_ns));
    found
}

#[cfg(test)]
mod tests {
    use capture::read::StatementRow;

    use super::*;

    #[test]
    fn a_transaction_lasts_from_its_first_change_to_its_end() {
        use StatementKind::{Begins, Changes, Ends};
        let row = |tid, at, kind| StatementRow { tid, begin_ns: at, end_ns: at + 5, kind };
        let statements = vec![
            row(1, 10, Changes),
            row(2, 15, Changes),
            row(1, 20, Changes),
            row(1, 30, Ends),
            row(1, 40, Ends),
            row(1, 50, Changes),
            row(1, 60, Begins),
            row(1, 70, Ends),
        ];
        let found = of(&Capture { statements, ..Capture::default() });
        let of = |tid, from_ns, to_ns| Transaction { tid, from_ns, to_ns };
        assert_eq!(found, [of(1, 10, 35), of(1, 60, 75)]);
    }
}
