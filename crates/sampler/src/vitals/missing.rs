//! Says in the source `vitals` which vitals this host does not give, in the words of
//! `dashcam doctor`.
//!
//! The source is on in any case: some of them are there everywhere. What is missing may change
//! while the process runs: it opens more descriptors than are asked, it is moved to another cgroup.

use format::source::SourceState;
use sys::vitals::Missing;

use crate::world::{Sink, VitalSigns};

/// What the source reported last.
pub(crate) struct Lacking {
    missing: Vec<Missing>,
}

impl Lacking {
    /// Reports it for the first time.
    pub(crate) fn new(sink: &impl Sink, vitals: &impl VitalSigns) -> Lacking {
        let lacking = Lacking { missing: vitals.missing().to_vec() };
        lacking.report(sink);
        lacking
    }

    /// Reports it anew where it changed.
    pub(crate) fn follow(&mut self, sink: &impl Sink, vitals: &impl VitalSigns) {
        if vitals.missing() != self.missing {
            self.missing = vitals.missing().to_vec();
            self.report(sink);
            sink.store_sources();
        }
    }

    fn report(&self, sink: &impl Sink) {
        let state = match Missing::line(&self.missing) {
            nothing if nothing.is_empty() => SourceState::On,
            missing => SourceState::partly(format_args!("missing: {missing}")),
        };
        sink.set_source("vitals", state);
    }
}
