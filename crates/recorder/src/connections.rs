//! Since when a request has waited in its connection; and connections for which that is known
//! without the kernel.
//!
//! How it works: what a server did not read together with a request came later than that. So the
//! next request of the connection, if it begins within `PROMPT_MS`, has waited for less, and the
//! kernel's answer would make no difference. With connections that stay open under load this is
//! nearly every request; the call is 0.6 us of the 100 us that a small one takes.
//!
//! A connection is its descriptor and its client's port: the descriptor alone goes to the next
//! client when one leaves, whose request may have waited in the accept queue. The requests of one
//! connection may be served by many threads, so all threads share one table of words:
//!
//! ```text
//!  word: descriptor (20 bits) | client's port (16) | when its last request began (28, of 1.05 ms)
//! ```
//!
//! What it promises: no lock, allocation or wait. A word is whole: one connection at one time. The
//! time starts over every three days; a connection that was silent for just that long, to 15 ms, is
//! taken for one that was busy.
//!
//! Missing on purpose: connections whose client's port is not known, and those whose word a busier
//! one takes: there the kernel is asked.

use std::sync::atomic::{AtomicU64, Ordering};

/// A request's data may lie unread for this long before its handler's start counts as late: the
/// kernel's clock for it ticks every 1-10 ms.
const PROMPT_MS: u32 = 15;
const MS: u64 = 1_000_000;

/// Words of the table; a connection's is chosen by its descriptor.
const WORDS: usize = 1024;
/// Words that share a line of the cache: connections that were accepted one after the other have
/// words in different ones.
const IN_LINE: usize = 8;
const TIME_BITS: u32 = 28;
const PORT_BITS: u32 = 16;
/// Descriptors from here on have no word.
const FDS: i32 = 1 << (64 - PORT_BITS - TIME_BITS);
/// ns in a unit of time, as a power of two.
const UNIT_BITS: u32 = 20;
/// Two times that differ by so many units are less than `PROMPT_MS` apart.
const PROMPT_UNITS: u64 = ((PROMPT_MS as u64 * MS) >> UNIT_BITS) - 1;

/// A connection of a request that begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connection {
    /// -1: none.
    pub fd: i32,
    /// Of its client; 0 where it is not known.
    pub port: u16,
}

impl Connection {
    /// A connection of whose client nothing is known.
    pub fn of(fd: i32) -> Self {
        Connection { fd, port: 0 }
    }

    /// Its word without the time; None: it has none.
    fn key(self) -> Option<u64> {
        let known = self.port != 0 && (0..FDS).contains(&self.fd);
        known.then_some(((self.fd as u64) << PORT_BITS) | u64::from(self.port))
    }

    /// Where its word is.
    fn place(self) -> usize {
        let (fd, lines) = (self.fd as usize, WORDS / IN_LINE);
        fd % lines * IN_LINE + fd / lines % IN_LINE
    }
}

/// Each word: the connection, and when the last request on it began that had not waited; 0: none.
/// Relaxed: a word is all that is known of a connection, and an old one makes a thread ask.
static SEEN: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];

/// Nanoseconds that the data of a request that begins now lay in its connection; 0 up to
/// `PROMPT_MS`. At most one syscall.
pub fn waited_ns(connection: Connection) -> u64 {
    if connection.fd < 0 {
        return 0;
    }
    let ask = || sys::socket::ms_since_data(connection.fd).unwrap_or(0);
    match connection.key() {
        Some(key) => waited(&SEEN[connection.place()], key, sys::clock::now_ns(), ask),
        None => late(ask()),
    }
}

fn late(ms: u32) -> u64 {
    if ms > PROMPT_MS {
        u64::from(ms) * MS
    } else {
        0
    }
}

fn waited(seen: &AtomicU64, key: u64, now_ns: u64, ask: impl FnOnce() -> u32) -> u64 {
    const TIMES: u64 = 1 << TIME_BITS;
    let (word, now) = (seen.load(Ordering::Relaxed), now_ns >> UNIT_BITS);
    let passed = now.wrapping_sub(word) % TIMES;
    let is_prompt = word >> TIME_BITS == key && passed <= PROMPT_UNITS;
    let waited_ns = if is_prompt { 0 } else { late(ask()) };
    // What was read together with a request that had waited has waited, too.
    let word = if waited_ns == 0 { (key << TIME_BITS) | (now % TIMES) } else { 0 };
    seen.store(word, Ordering::Relaxed);
    waited_ns
}

#[cfg(test)]
mod tests {
    use super::{waited, AtomicU64, Connection, FDS, IN_LINE, MS, TIME_BITS, UNIT_BITS, WORDS};

    const ONE: Connection = Connection { fd: 7, port: 40_000 };

    /// For each (connection, begins at ms, what the kernel would answer): ms waited, and whether
    /// the kernel was asked.
    fn begin(requests: &[(Connection, u64, u32)]) -> Vec<(u64, bool)> {
        let seen: Vec<_> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
        let one = |&(connection, at_ms, answer): &(Connection, u64, u32)| {
            let mut asked = false;
            let ask = || {
                asked = true;
                answer
            };
            let key = connection.key().expect("it has a word");
            (waited(&seen[connection.place()], key, at_ms * MS, ask) / MS, asked)
        };
        requests.iter().map(one).collect()
    }

    #[test]
    fn the_kernel_is_asked_unless_the_last_request_was_a_moment_ago() {
        let seen = begin(&[(ONE, 1000, 0), (ONE, 1013, 400), (ONE, 1029, 400), (ONE, 1030, 10)]);
        assert_eq!(seen, [(0, true), (0, false), (400, true), (0, true)]);
    }

    #[test]
    fn a_descriptor_that_another_client_has_now_is_asked() {
        let next = Connection { port: 40_001, ..ONE };
        let elsewhere = Connection { fd: ONE.fd + WORDS as i32, ..ONE };
        assert_eq!(ONE.place(), elsewhere.place());
        let seen =
            begin(&[(ONE, 1000, 0), (next, 1001, 300), (ONE, 1002, 0), (elsewhere, 1003, 20)]);
        assert_eq!(seen, [(0, true), (300, true), (0, true), (20, true)]);
    }

    #[test]
    fn times_start_over_and_no_other_one_is_taken_for_a_moment_ago() {
        let unit = |units: u64| (units << UNIT_BITS).div_ceil(MS);
        let last = unit((1 << TIME_BITS) - 1);
        let seen = begin(&[(ONE, last, 0), (ONE, last + 10, 400), (ONE, last * 3 / 2, 400)]);
        assert_eq!(seen, [(0, true), (0, false), (400, true)]);
        for ms in 1..2_000 {
            let seen = begin(&[(ONE, last - 1_000, 0), (ONE, last - 1_000 + ms, 400)]);
            assert!(seen[1].1 || ms < 15, "{ms} ms later it was not asked");
        }
    }

    #[test]
    fn a_word_is_for_ports_and_small_descriptors() {
        assert_eq!(Connection::of(7).key(), None);
        assert_eq!(Connection { fd: FDS, port: 1 }.key(), None);
        assert!(Connection { fd: FDS - 1, port: u16::MAX }.key().is_some());
        let lines: std::collections::HashSet<_> =
            (0..64).map(|fd| Connection { fd, port: 1 }.place() / IN_LINE).collect();
        assert_eq!(lines.len(), 64, "neighbours share a line");
    }
}
