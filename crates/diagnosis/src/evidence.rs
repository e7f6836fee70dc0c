//! What the evidence of each inference weighs against that of the others: one table.
//!
//! How it works: a weight is a likelihood ratio: how many times more often the inference names a
//! thread that is the blocker than one that is not. What was read from a lock, the interpreter or
//! the kernel is no guess: its weights are so large that no guess outweighs them, and among
//! themselves they say which fact is nearer to the question. An inference that counts chances
//! weighs each of its candidates by those (`Weight::Measured`).
//!
//! What it promises: two inferences that may answer one question differ in weight, or their
//! candidates do. Weights are not multiplied when several inferences name one thread: they rest on
//! the same samples, and would count these twice.

use crate::explain::Inference;

/// How much an inference's candidates weigh.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Weight {
    /// A record was read, which no guess refutes: all the same.
    Fact(f64),
    /// A guess: all the same.
    Fixed(f64),
    /// A guess that counts chances: each as much as these say, at most so much.
    Measured(f64),
}

/// What a candidate is said to have done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It had what was waited for: also where no thread ended the wait.
    Holder,
    /// It ended the wait. Proof that no thread did speaks against it.
    Waker,
}

/// A row of the table.
pub struct Row {
    /// The inference.
    pub by: Inference,
    /// What its candidates are said to have done.
    pub role: Role,
    /// What they weigh.
    pub weight: Weight,
    /// Why they weigh that.
    pub why: &'static str,
}

const fn fact(by: Inference, role: Role, weight: f64, why: &'static str) -> Row {
    Row { by, role, weight: Weight::Fact(weight), why }
}

const fn fixed(by: Inference, role: Role, weight: f64, why: &'static str) -> Row {
    Row { by, role, weight: Weight::Fixed(weight), why }
}

const fn measured(by: Inference, role: Role, most: f64, why: &'static str) -> Row {
    Row { by, role, weight: Weight::Measured(most), why }
}

/// Each inference that has rivals. The others answer questions that only they answer.
pub const TABLE: &[Row] = {
    use Inference as By;
    use Role::{Holder, Waker};
    &[
        // Facts.
        fact(By::NamedHolder, Holder, 1e9, "read from the lock while it was waited for"),
        fact(By::GilHolder, Holder, 1e9, "read from the interpreter while it was waited for"),
        fact(By::TaskHolder, Holder, 1e9, "read from the lock that the task awaits"),
        fact(By::ThreadEndRead, Waker, 1e9, "read from the object that is joined"),
        fact(
            By::TimeLimit,
            Waker,
            1e8,
            "the wait ended with its limit: a wakeup that is recorded so late is the timer's",
        ),
        fact(
            By::WakeRecord,
            Waker,
            1e7,
            "the kernel's record; below the owner, since a waker may only pass the lock on",
        ),
        fact(
            By::TaskWaker,
            Waker,
            1e7,
            "the waker's own record; below the owner, since a waker may only pass the lock on",
        ),
        fact(
            By::TaskReference,
            Holder,
            1e6,
            "the task refers to what is awaited; it may do so and not hold it",
        ),
        // Chances that are counted, over several waits.
        measured(By::Recurring, Waker, 1e5, "one over the chance of having been there"),
        measured(By::RecurringExit, Waker, 1e5, "one over the chance of having left"),
        fixed(
            By::PastTheLine,
            Holder,
            100.0,
            "its code is past the line that takes from the pool; it may have given back already",
        ),
        measured(
            By::InsideDuring,
            Holder,
            50.0,
            "half of its part of the waits over its part of other time: a fellow comes and goes so",
        ),
        // One wait, by samples and switch records.
        fixed(By::UsualWaker, Waker, 100.0, "ended other waits at this place, and is there now"),
        fixed(
            By::InsideCall,
            Holder,
            50.0,
            "one line of C code takes and uses a lock: the only other thread in it has the lock",
        ),
        fixed(
            By::OpenTransaction,
            Holder,
            200.0,
            "its transaction was open meanwhile and ended then; it may be of another database",
        ),
        fixed(
            By::RanBefore,
            Waker,
            20.0,
            "ran last of those that share code with the waiter; times are the kernel's, or samples'",
        ),
        fixed(
            By::LeftPlace,
            Waker,
            10.0,
            "left its function then; when that was is known to a sampling period only",
        ),
        fixed(
            By::LockOrder,
            Holder,
            8.0,
            "two waits that end with one another; a third thread may have held both locks",
        ),
        fixed(
            By::SameCode,
            Holder,
            5.0,
            "awaits something else in the same code (or file, until the item came) meanwhile, or is at work there for others",
        ),
        fixed(By::QueueReader, Holder, 4.0, "is at work in the queue's file: the least that is known"),
        fixed(By::OnlyPython, Holder, 3.0, "ran most of the Python code then; no reading names it"),
    ]
};

/// The row of an inference, if it has rivals.
pub(crate) fn row(by: Inference) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.by == by)
}

/// The most that a candidate of an inference weighs; of one without rivals 1.
pub fn most(by: Inference) -> f64 {
    row(by).map_or(1.0, |row| match row.weight {
        Weight::Fact(weight) | Weight::Fixed(weight) | Weight::Measured(weight) => weight,
    })
}

/// What a candidate of an inference is said to have done.
pub(crate) fn role(by: Inference) -> Role {
    row(by).map_or(Role::Holder, |row| row.role)
}

/// Whether an inference reads a record, which no guess refutes.
pub(crate) fn is_fact(by: Inference) -> bool {
    row(by).is_some_and(|row| matches!(row.weight, Weight::Fact(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_inference_has_two_rows_and_each_says_why() {
        for (i, row) in TABLE.iter().enumerate() {
            assert!(TABLE[..i].iter().all(|other| other.by != row.by), "{:?}", row.by);
            assert!(!row.why.is_empty() && most(row.by) > 1.0, "{:?}", row.by);
        }
    }

    #[test]
    fn no_guess_outweighs_a_fact() {
        let facts = TABLE.iter().filter(|row| is_fact(row.by)).map(|row| most(row.by));
        let least = facts.fold(f64::MAX, f64::min);
        let guesses = TABLE.iter().filter(|row| !is_fact(row.by)).map(|row| most(row.by));
        assert!(guesses.fold(0.0, f64::max) < least);
    }
}
