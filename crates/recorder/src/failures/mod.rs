//! Requests that failed, by rule, and those that the program's own predicate chose.

mod predicate;
mod rules;

pub(crate) use predicate::{ask, postpone, Question};
pub use predicate::{ask_postponed, set_predicate, Ended, Predicate};
pub(crate) use rules::Failed;
pub use rules::{ErrorJudge, Failures, Recorded, ERROR_RULES};
