//! A time in which no code of a request ran on its event loop's thread, exact to the instruction.
//!
//! ```text
//!  word 0: kind 18 (8) | 4 words (8) | 0 (32)
//!       1: when the thread left the request's last context
//!       2: when it entered one again
//!       3: the request
//! ```
//! A task of the request moves only in a context of the request. So what a sample between the two
//! times saw it await, it awaited for all of that time. Recorded only where there is a sample of
//! the task in it (`Await`), by CPython 3.14 and later: a missing record means nothing.

use crate::words::{header, Kind};

/// One suspension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspension {
    /// When the last code of the request ended.
    pub out_ns: u64,
    /// When code of the request ran again.
    pub in_ns: u64,
    /// The request.
    pub request: u64,
}

impl Suspension {
    /// As words.
    #[inline]
    pub fn encode(&self) -> [u64; 4] {
        [header(Kind::Suspension, 4, 0, 0), self.out_ns, self.in_ns, self.request]
    }

    pub(crate) fn decode(body: &[u64]) -> Option<Suspension> {
        let &[out_ns, in_ns, request] = body else { return None };
        Some(Suspension { out_ns, in_ns, request })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{decode, Record};

    #[test]
    fn a_suspension_survives_encoding() {
        let one = Suspension { out_ns: 5, in_ns: 9, request: u64::MAX };
        assert_eq!(decode(&one.encode()), Some((4, Record::Suspension(one))));
    }

    #[test]
    fn a_suspension_of_another_length_is_refused() {
        assert_eq!(decode(&[header(Kind::Suspension, 3, 0, 0), 5, 9]), None);
    }
}
