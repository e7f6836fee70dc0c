//! When a capture is made: rules on times, errors and metrics, asked each pass; all policy is in
//! crate `trigger`.

pub(crate) mod alarms;
pub(crate) mod asked;
pub(crate) mod error_rules;
pub(crate) mod excess;
pub(crate) mod firing;
pub(crate) mod signal;
