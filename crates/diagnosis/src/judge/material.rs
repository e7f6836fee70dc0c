//! What findings are made from.

use analysis::requests::{Judged, Requests};
use capture::read::Traces;

use crate::context::Context;
use crate::groups::weigh::Baseline;
use crate::reported::{calls, repeats};

/// What findings are made from.
pub(crate) struct Material<'a, 'c> {
    pub(crate) cx: &'a Context<'c>,
    pub(crate) requests: &'a Requests<'c>,
    pub(crate) controls: &'a [Judged<'c>],
    /// What each of them spent.
    pub(crate) spent: &'a [Baseline],
    pub(crate) traces: &'a Traces,
    pub(crate) counts: &'a repeats::Counts<'c>,
    pub(crate) calls: &'a calls::Calls<'c>,
    pub(crate) waits: &'a repeats::Waits,
    pub(crate) excess: f64,
}
