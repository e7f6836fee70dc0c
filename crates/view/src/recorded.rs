//! What the requests with a timeline recorded: their attributes, spans and events.
//!
//! How it works: a verdict is made without these rows (`capture::read::Wanted::Causes`), which are
//! most of a large capture. They are taken from its parts as these are read one after the other.
//!
//! What it promises: at most `ROWS_MAX` spans and as many events are kept, however large the
//! capture is; the rest is counted.

use std::collections::{HashMap, HashSet};

use capture::read::{Capture, EventRow, SpanRow, Text};

/// Rows of each kind that are kept.
pub(crate) const ROWS_MAX: usize = 100_000;

/// Rows of some requests.
#[derive(Debug, Default)]
pub struct Recorded {
    /// Spans, part after part.
    pub(crate) spans: Vec<SpanRow>,
    /// Events, part after part.
    pub(crate) events: Vec<EventRow>,
    /// Attributes of requests, by id.
    pub(crate) attributes: HashMap<u64, Vec<(u32, Text)>>,
    /// Spans and events that these requests have.
    pub(crate) counts: (usize, usize),
}

impl Recorded {
    /// Takes the rows of the requests `ids` from a capture, or from a part of it.
    pub fn take(&mut self, part: &Capture, ids: &HashSet<u64>) {
        let is_wanted = |request: u64, begin_ns: u64| ids.contains(&request) && part.owns(begin_ns);
        for row in part.requests.iter().filter(|row| ids.contains(&row.id)) {
            if !row.attributes.is_empty() {
                self.attributes.insert(row.id, row.attributes.clone());
            }
        }
        for row in part.spans.iter().filter(|row| is_wanted(row.request, row.begin_ns)) {
            self.counts.0 += 1;
            if self.spans.len() < ROWS_MAX {
                self.spans.push(row.clone());
            }
        }
        for row in part.events.iter().filter(|row| is_wanted(row.request, row.t_ns)) {
            self.counts.1 += 1;
            if self.events.len() < ROWS_MAX {
                self.events.push(row.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use capture::read::{Part, RequestRow};

    use super::*;

    fn part(from_ns: u64, to_ns: u64) -> Capture {
        let request = |id, begin_ns| RequestRow {
            id,
            name: 0,
            tid: 7,
            begin_ns,
            started_ns: begin_ns,
            end_ns: Some(begin_ns + 100),
            ended_tid: 7,
            error: false,
            on_loop: false,
            times: 1,
            attributes: vec![(0, Text::Int(id as i64))],
        };
        let event = |request, t_ns| EventRow { name: 0, tid: 7, t_ns, request, attributes: vec![] };
        // What is still under way is in the next part, too.
        let all = [event(1, 10), event(1, 60), event(2, 60), event(1, 90)];
        Capture {
            part: Some(Part { from_ns, to_ns, number: 0 }),
            requests: vec![request(1, 5), request(2, 55)],
            events: all.to_vec(),
            ..Capture::default()
        }
    }

    #[test]
    fn a_row_that_two_parts_have_is_taken_once_and_only_of_the_wanted_requests() {
        let mut recorded = Recorded::default();
        let ids = HashSet::from([1]);
        recorded.take(&part(0, 50), &ids);
        recorded.take(&part(50, u64::MAX), &ids);
        let times: Vec<u64> = recorded.events.iter().map(|event| event.t_ns).collect();
        assert_eq!((times.as_slice(), recorded.counts), (&[10, 60, 90][..], (0, 3)));
        assert_eq!(recorded.attributes.keys().collect::<Vec<_>>(), [&1]);
    }
}
