//! What waits to be posted, and the accounts.
//!
//! What it promises: for spans and for points of metrics, at every scan,
//! `produced = sent + refused + dropped + waiting`. *Sent* is what a collector said it took; when a
//! connection breaks behind a request, what it took is posted again, so it may come twice.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use ::otlp::http::Answer;

/// Bytes that may wait; past them the oldest are dropped.
pub(super) const MOST_BYTES: usize = 16 << 20;
const FIRST_WAIT: Duration = Duration::from_secs(1);
const MOST_WAIT: Duration = Duration::from_secs(30);
/// The longest that a collector may ask us to wait.
const MOST_AWAY: Duration = Duration::from_secs(300);

/// Which endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    Traces = 0,
    Metrics = 1,
}

/// A request that is to be posted.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub signal: Signal,
    /// Spans, or points.
    pub count: u64,
    pub body: std::sync::Arc<[u8]>,
}

/// What became of a signal's spans or points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Books {
    pub produced: u64,
    pub sent: u64,
    /// The collector did not want them.
    pub refused: u64,
    /// There was no room, or no time at the end.
    pub dropped: u64,
    pub waiting: u64,
}

/// Requests in the order they came.
#[derive(Debug, Default)]
pub(super) struct Queue {
    items: VecDeque<Item>,
    bytes: usize,
    /// The first item is being posted.
    taken: bool,
    pub books: [Books; 2],
    /// Requests that were taken.
    pub requests: u64,
    /// Requests that were tried again, each try.
    pub retried: u64,
    /// In words; empty: all is well.
    pub last_error: String,
    /// Nothing went since then.
    pub down_since: Option<Instant>,
    wait: Duration,
    not_before: Option<Instant>,
}

impl Queue {
    /// Puts a request in, and drops the oldest ones that have no room beside it.
    pub(super) fn push(&mut self, item: Item) {
        let books = &mut self.books[item.signal as usize];
        books.produced += item.count;
        books.waiting += item.count;
        self.bytes += item.body.len();
        self.items.push_back(item);
        // The one that is being posted is left in the queue.
        let first = usize::from(self.taken);
        while self.bytes > MOST_BYTES {
            let Some(item) = self.items.remove(first) else { break };
            self.bytes -= item.body.len();
            let books = &mut self.books[item.signal as usize];
            books.waiting -= item.count;
            books.dropped += item.count;
        }
    }

    /// The next one to post, unless it is too early for it.
    pub(super) fn take(&mut self, now: Instant) -> Option<Item> {
        if self.not_before.is_some_and(|at| now < at) {
            return None;
        }
        let item = self.items.front().cloned();
        self.taken = item.is_some();
        item
    }

    /// Tries at once what would wait for its time.
    pub(super) fn hurry(&mut self) {
        self.not_before = None;
    }

    /// Nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// How long until the next one may be posted.
    #[cfg(test)]
    fn due_in(&self, now: Instant) -> Option<Duration> {
        let at = self.not_before.unwrap_or(now);
        (!self.items.is_empty()).then(|| at.saturating_duration_since(now))
    }

    /// The collector answered the one that was taken.
    pub(super) fn answered(&mut self, answer: &Answer, now: Instant) {
        if !answer.is_taken() {
            let error = format!("{} {}", answer.status, answer.message);
            return match answer.is_later() {
                true => self.later(error, answer.retry_after, now),
                false => {
                    self.settle(u64::MAX);
                    self.last_error = error;
                    self.up();
                }
            };
        }
        self.requests += 1;
        self.settle(answer.rejected);
        self.last_error.clear();
        if answer.rejected > 0 {
            self.last_error = format!("rejected {}: {}", answer.rejected, answer.message);
        }
        self.up();
    }

    fn up(&mut self) {
        (self.wait, self.not_before, self.down_since) = (Duration::ZERO, None, None);
    }

    /// The one that was taken did not go; it goes again.
    pub(super) fn later(&mut self, error: String, asked: Option<Duration>, now: Instant) {
        self.taken = false;
        self.retried += 1;
        self.last_error = error;
        self.down_since.get_or_insert(now);
        let wait = asked.map_or_else(
            || {
                self.wait = (self.wait * 2).clamp(FIRST_WAIT, MOST_WAIT);
                // A quarter more or less, so that many processes do not come back in step.
                let part = (sys::clock::now_ns() / 64 % 128) as u32;
                self.wait * (96 + part / 2) / 128
            },
            |asked| asked.min(MOST_AWAY),
        );
        self.not_before = now.checked_add(wait);
    }

    /// The one that was taken is over; `refused` of it were not wanted.
    fn settle(&mut self, refused: u64) {
        if !std::mem::take(&mut self.taken) {
            return;
        }
        if let Some(item) = self.items.pop_front() {
            self.bytes -= item.body.len();
            let refused = refused.min(item.count);
            let books = &mut self.books[item.signal as usize];
            books.waiting -= item.count;
            books.refused += refused;
            books.sent += item.count - refused;
        }
    }

    /// The end: what waits is lost.
    pub(super) fn drop_all(&mut self) {
        self.taken = false;
        for item in self.items.drain(..) {
            let books = &mut self.books[item.signal as usize];
            books.waiting -= item.count;
            books.dropped += item.count;
        }
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(count: u64, bytes: usize) -> Item {
        Item { signal: Signal::Traces, count, body: vec![0; bytes].into() }
    }

    fn adds_up(queue: &Queue) -> bool {
        let all = |b: &Books| b.sent + b.refused + b.dropped + b.waiting;
        queue.books.iter().all(|books| books.produced == all(books))
    }

    #[test]
    fn every_span_is_in_the_books_whatever_the_collector_says() {
        let mut queue = Queue::default();
        let mut now = Instant::now();
        (1..=5).for_each(|n| queue.push(item(n * 10, 100)));
        let answer = |status, rejected| Answer { status, rejected, ..Answer::default() };
        for (answer, sent, refused) in [
            (answer(200, 0), 10, 0),
            (answer(200, 5), 25, 5),
            (answer(400, 0), 25, 35),
            (answer(503, 0), 25, 35),
            (answer(200, 99), 25, 75),
        ] {
            assert!(queue.take(now).is_some());
            queue.answered(&answer, now);
            let books = queue.books[0];
            assert_eq!((books.sent, books.refused), (sent, refused));
            assert!(adds_up(&queue), "{queue:?}");
            // Past any wait.
            now += Duration::from_secs(60);
        }
        queue.drop_all();
        assert!(adds_up(&queue) && queue.books[0].dropped == 50 && queue.is_empty());
    }

    #[test]
    fn a_collector_is_left_alone_for_as_long_as_it_asks() {
        let mut queue = Queue::default();
        let now = Instant::now();
        queue.push(item(1, 1));
        assert!(queue.take(now).is_some());
        let retry_after = Some(Duration::from_secs(7));
        queue.answered(&Answer { status: 429, retry_after, ..Answer::default() }, now);
        assert_eq!(queue.due_in(now), retry_after);
        assert!(queue.take(now + Duration::from_secs(6)).is_none());
        assert!(queue.take(now + Duration::from_secs(7)).is_some());
        queue.later("refused".to_owned(), None, now);
        let first = queue.due_in(now).expect("waits");
        assert!((700..1300).contains(&first.as_millis()), "{first:?}");
        queue.hurry();
        assert!(queue.take(now).is_some());
        assert_eq!(queue.retried, 2);
    }

    #[test]
    fn past_its_bytes_the_oldest_go_but_not_the_one_under_way() {
        let mut queue = Queue::default();
        (0..4).for_each(|_| queue.push(item(1, MOST_BYTES / 4)));
        assert!(queue.take(Instant::now()).is_some());
        queue.push(item(100, MOST_BYTES / 4));
        assert_eq!((queue.books[0].dropped, queue.books[0].waiting), (1, 103));
        queue.answered(&Answer { status: 200, ..Answer::default() }, Instant::now());
        assert_eq!(queue.books[0].sent, 1);
        assert!(adds_up(&queue));
        // An item that is larger than the whole queue goes at once, and is reported.
        queue.push(item(7, MOST_BYTES + 1));
        assert!(queue.is_empty() && adds_up(&queue));
    }
}
