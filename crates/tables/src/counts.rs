//! How many rows of each kind a capture has, or the parts of it that were read.

use std::ops::{Index, IndexMut};

use capture::read::Capture;

/// A kind of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    Requests,
    Spans,
    OwnSpans,
    Events,
    Links,
    Metrics,
    Tasks,
    Gcs,
    Vitals,
    Awaits,
    Samples,
    Switches,
}

const KINDS: usize = Of::Switches as usize + 1;

/// A number for each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts([usize; KINDS]);

impl Index<Of> for Counts {
    type Output = usize;

    fn index(&self, of: Of) -> &usize {
        &self.0[of as usize]
    }
}

impl IndexMut<Of> for Counts {
    fn index_mut(&mut self, of: Of) -> &mut usize {
        &mut self.0[of as usize]
    }
}

impl Counts {
    /// Adds the rows that a part owns.
    pub(crate) fn add(&mut self, part: &Capture) {
        fn owned<'r, T: 'r>(
            part: &Capture,
            rows: impl IntoIterator<Item = &'r T>,
            at_ns: impl Fn(&T) -> u64,
        ) -> usize {
            rows.into_iter().filter(|row| part.owns(at_ns(row))).count()
        }
        let found = [
            (Of::Requests, owned(part, &part.requests, |r| r.begin_ns)),
            (Of::Spans, owned(part, &part.spans, |s| s.begin_ns)),
            (Of::OwnSpans, owned(part, &part.own_spans, |s| s.begin_ns)),
            (Of::Events, owned(part, &part.events, |e| e.t_ns)),
            (Of::Links, owned(part, &part.links, |l| l.link.t_ns)),
            (Of::Metrics, owned(part, &part.metrics, |m| m.to_ns)),
            (Of::Tasks, owned(part, &part.tasks, |t| t.begin_ns)),
            (Of::Gcs, owned(part, &part.gcs, |g| g.begin_ns)),
            (Of::Vitals, owned(part, &part.vitals, |v| v.t_ns)),
            (Of::Awaits, owned(part, part.awaits.values().flatten(), |a| a.t_ns)),
            (Of::Samples, owned(part, part.samples.values().flatten(), |s| s.t_ns)),
            (Of::Switches, owned(part, part.off_cpu.values().flatten(), |o| o.in_ns)),
        ];
        found.into_iter().for_each(|(of, count)| self[of] += count);
    }
}
