//! The queue: packets that wait, and the account of everything that came and went.
//!
//! How it works: a list of packets, oldest first, under one lock that is held for moments. The
//! dispatcher takes the bytes of the front packet, and settles it later by its number: sent or
//! lost. Until then it counts as waiting. When more waits than may, the oldest packet that is not
//! being sent is dropped, for the reason why nothing moves.
//!
//! What it promises: a packet is settled exactly once, by whichever thread; the account adds up at
//! every moment. What a lost packet's self-metric reported is reported again by a later one. No I/O
//! here.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::pack::{lines_in, Packer, Packet};
use crate::stats::{Amount, Reason, Stats};

/// What a packet costs besides its bytes.
const OVERHEAD: usize = 128;

struct Held {
    number: u64,
    packet: Packet,
    amount: Amount,
}

/// The queue; see the module.
pub(crate) struct Queue {
    held: VecDeque<Held>,
    /// The dispatcher has the bytes of the front packet.
    taken: bool,
    next: u64,
    most_bytes: usize,
    packet_bytes: usize,
    books: Stats,
    /// What each self-metric has reported so far.
    reported: Vec<i64>,
    last_report: Instant,
    /// The last packet that a UDP socket took, until it is known that no refusal came back for it.
    unsure: Option<Held>,
    /// No more lines are accepted.
    pub(crate) closed: bool,
    /// The time by which closing has to end.
    pub(crate) deadline: Option<Instant>,
    /// The dispatcher is to end, whatever it does.
    pub(crate) ended: bool,
    /// Requests to try again now; grows.
    pub(crate) kicks: u64,
    /// Rounds over all addresses of the target in which no receiver took a packet; grows.
    pub(crate) rounds: u64,
    /// There is a dispatcher, or one is being started.
    pub(crate) running: bool,
    /// Since when nothing moves.
    pub(crate) down_since: Option<Instant>,
}

impl Queue {
    /// Empty.
    pub(crate) fn new(target: String, most_bytes: usize, packet_bytes: usize) -> Queue {
        let books = Stats { target, ..Stats::default() };
        Queue {
            held: VecDeque::new(),
            taken: false,
            next: 0,
            most_bytes,
            packet_bytes,
            reported: vec![0; books.meter_values().len()],
            books,
            last_report: Instant::now(),
            unsure: None,
            closed: false,
            deadline: None,
            ended: false,
            kicks: 0,
            rounds: 0,
            running: false,
            down_since: None,
        }
    }

    /// The account.
    pub(crate) fn books(&self) -> &Stats {
        &self.books
    }

    /// Takes the packets of a packer, and counts what it refused.
    pub(crate) fn push(&mut self, packer: Packer, without_tags: u64) {
        for (reason, lines) in packer.refused {
            self.refuse(reason, lines);
        }
        if let Some(said) = packer.too_long {
            self.books.last_error = said;
        }
        self.books.without_tags += without_tags;
        packer.packets.into_iter().for_each(|packet| self.push_packet(packet));
    }

    /// Takes one line. False: it was refused or the queue is closed, and that is counted.
    pub(crate) fn push_line(&mut self, text: &str) -> bool {
        let mut packet = Packet::default();
        if !packet.add(text, self.packet_bytes) {
            self.books.last_error = crate::pack::too_long(text, self.packet_bytes);
            self.refuse(Reason::TooLong, lines_in(text));
            return false;
        }
        let open = !self.closed;
        self.push_packet(packet);
        open
    }

    /// Lines that will never be in a packet.
    pub(crate) fn refuse(&mut self, reason: Reason, lines: u64) {
        self.books.produced.lines += lines;
        self.books.dropped[reason as usize].add(Amount::lines(lines));
    }

    fn push_packet(&mut self, mut packet: Packet) {
        if self.closed {
            self.refuse(Reason::Closed, packet.lines);
            return self.untell(&packet.reports);
        }
        if self.joined(&mut packet) {
            return self.shed();
        }
        packet.bytes.shrink_to_fit();
        let amount = packet.amount();
        self.books.produced.add(amount);
        self.books.waiting.add(amount);
        self.held.push_back(Held { number: self.next, packet, amount });
        self.next += 1;
        self.shed();
    }

    /// Appends all of `packet` to the last packet that waits, if it fits.
    fn joined(&mut self, packet: &mut Packet) -> bool {
        let free = self.held.len() > usize::from(self.taken);
        let Some(last) = self.held.back_mut().filter(|_| free) else { return false };
        let Ok(text) = std::str::from_utf8(&packet.bytes) else { return false };
        if !last.packet.add(text, self.packet_bytes) {
            return false;
        }
        let more = Amount { lines: packet.lines, packets: 0, bytes: packet.bytes.len() as u64 + 1 };
        last.amount.add(more);
        last.packet.reports.append(&mut packet.reports);
        self.books.produced.add(more);
        self.books.waiting.add(more);
        true
    }

    /// Drops the oldest until what waits fits.
    fn shed(&mut self) {
        let size = |books: &Stats| {
            books.waiting.bytes as usize + books.waiting.packets as usize * OVERHEAD
        };
        let reason = self.books.down.unwrap_or(Reason::QueueFull);
        while size(&self.books) > self.most_bytes {
            let Some(oldest) = self.held.remove(usize::from(self.taken)) else { return };
            self.lose(oldest, reason);
        }
    }

    fn lose(&mut self, held: Held, reason: Reason) {
        self.books.waiting.take(held.amount);
        self.books.dropped[reason as usize].add(held.amount);
        self.untell(&held.packet.reports);
    }

    fn untell(&mut self, reports: &[(usize, i64)]) {
        for (meter, value) in reports {
            self.reported[*meter] -= value;
        }
    }

    /// The oldest packet's number and bytes, for sending; it has to be settled.
    pub(crate) fn take(&mut self) -> Option<(u64, Vec<u8>)> {
        let front = self.held.front_mut().filter(|_| !self.taken)?;
        self.taken = true;
        Some((front.number, std::mem::take(&mut front.packet.bytes)))
    }

    fn settle(&mut self, number: u64) -> Option<Held> {
        let ours = self.taken && self.held.front().is_some_and(|front| front.number == number);
        if !ours {
            return None;
        }
        self.taken = false;
        self.held.pop_front()
    }

    /// The packet was given to the kernel. `sure`: its receiver has it; it is not on a network.
    pub(crate) fn sent(&mut self, number: u64, sure: bool) {
        self.books.down = None;
        self.down_since = None;
        if let Some(held) = self.settle(number) {
            self.books.waiting.take(held.amount);
            self.books.sent.add(held.amount);
            self.unsure = Some(held).filter(|_| !sure);
        }
    }

    /// The packet cannot be sent.
    pub(crate) fn lost(&mut self, number: u64, reason: Reason) {
        if let Some(held) = self.settle(number) {
            self.lose(held, reason);
        }
    }

    /// A refusal came back that belongs to the packet before.
    pub(crate) fn refused_late(&mut self) {
        if let Some(held) = self.unsure.take() {
            self.books.sent.take(held.amount);
            self.books.dropped[Reason::NoReceiver as usize].add(held.amount);
            self.untell(&held.packet.reports);
        }
    }

    /// Everything that waits is lost, including the packet being sent.
    pub(crate) fn drop_all(&mut self, reason: Reason) {
        self.taken = false;
        while let Some(held) = self.held.pop_front() {
            self.lose(held, reason);
        }
    }

    /// Sending or connecting failed.
    pub(crate) fn failed(&mut self, reason: Reason, error: String) {
        self.books.errors[reason as usize] += 1;
        self.books.last_error = error;
        if reason != Reason::MessageSize {
            self.books.down = Some(reason);
            self.down_since.get_or_insert_with(Instant::now);
        }
    }

    /// A connection was made.
    pub(crate) fn connected(&mut self) {
        self.books.connects += 1;
        self.unsure = None;
    }

    /// Number of the oldest packet that is not settled; all smaller ones are.
    pub(crate) fn settled_below(&self) -> u64 {
        self.held.front().map_or(self.next, |front| front.number)
    }

    /// Number of the next packet. All packets in the queue have smaller numbers and get no more
    /// lines.
    pub(crate) fn seal(&mut self) -> u64 {
        self.next
    }

    /// Whether it is time for self-metrics.
    pub(crate) fn report_due(&self, every: Duration) -> bool {
        self.last_report.elapsed() >= every
    }

    /// The growth of each self-metric since its last report: (number, growth), without zeros. It
    /// counts as reported.
    pub(crate) fn report(&mut self) -> Vec<(usize, i64)> {
        self.last_report = Instant::now();
        let now = self.books.meter_values();
        let mut more = Vec::new();
        for (meter, (value, reported)) in now.into_iter().zip(&mut self.reported).enumerate() {
            let value = i64::try_from(value).unwrap_or(i64::MAX);
            if value != *reported {
                more.push((meter, value - *reported));
                *reported = value;
            }
        }
        more
    }

    /// A self-metric's line did not fit into a packet.
    pub(crate) fn not_reported(&mut self, meter: usize, value: i64) {
        self.untell(&[(meter, value)]);
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
