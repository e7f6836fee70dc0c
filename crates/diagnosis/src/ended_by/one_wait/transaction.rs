//! The one thread whose transaction was open for most of a wait for a database's lock, and ended
//! when the wait did.
//!
//! How it works: a waiter asks again and again, so it goes on within a pause of the end of the
//! transaction that it waited for (`left_place::end_of_asking`).
//!
//! What it promises: of several such threads none is named. Missing on purpose: which database it
//! is; another one's transaction may have ended then.

use analysis::thresholds;
use analysis::timeline::{overlap_ns, Segment};

use crate::compare::{self, Question};
use crate::context::Context;
use crate::ended_by::one_wait::left_place;
use crate::explain::{Dropped, Fact, Inference, Threshold};
use crate::facts::transactions;
use crate::memo::Transaction;

/// The transaction that had the database which `segment` asks for.
pub fn of(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Transaction> {
    let all = cx.transactions.get_or_init(|| transactions::of(cx.capture));
    let asking = left_place::end_of_asking(cx, segment)?;
    let (from, (in_vain, until)) = (asking.from, asking.end);
    let ended = |t: &&Transaction| in_vain <= t.to_ns && t.to_ns <= until && t.tid != segment.tid;
    let during = |t: &Transaction| overlap_ns((t.from_ns, t.to_ns), (from, until));
    let least = thresholds::main_part() * in_vain.saturating_sub(from) as f64;
    let mut most = all.iter().filter(|t| ended(t) && during(t) as f64 >= least);
    let first = most.next();
    let won = first.filter(|_| most.next().is_none()).copied();
    let tally: Vec<(u32, u64)> = all.iter().filter(ended).map(|t| (t.tid, during(t))).collect();
    if !tally.is_empty() {
        let question = Question::about(Inference::OpenTransaction, segment);
        let lost = if first.is_some() { Dropped::Ambiguous } else { Dropped::TooLittle };
        let least = Threshold::part("open-transaction.part-of-wait", thresholds::main_part());
        compare::keep_tally(
            cx,
            question,
            (&tally, Fact::Time),
            (won.map(|t| t.tid), lost),
            &[least],
        );
    }
    won
}
