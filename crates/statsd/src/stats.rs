//! The account: what was produced, sent and lost, and why.
//!
//! What it promises: at every moment `produced = sent + dropped + waiting`, for lines, for packets
//! and for bytes. Lines that never came into a packet (too long, unsupported) have no packet and no
//! bytes. What it does not: *sent* means given to the kernel; what a UDP network loses cannot be
//! counted.

use std::io;

/// Why a line was dropped. The names are those of the self-metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The queue was full while the receiver was there; the oldest went.
    QueueFull,
    /// The queue was full, or the sink was closed, and no receiver listened.
    NoReceiver,
    /// The same, while the receiver did not read.
    WouldBlock,
    /// The same, while the kernel had no memory for sending.
    NoBuffers,
    /// The same, while the host's name did not resolve.
    Unresolved,
    /// The same, for another error of the network; `Stats::last_error` has it.
    Network,
    /// The kernel refused a datagram of this size.
    MessageSize,
    /// The line alone is longer than a datagram may be.
    TooLong,
    /// The dialect has no such line.
    Unsupported,
    /// No name, or a value that is not a number.
    Invalid,
    /// Another thread held the queue at this instant, and the caller may not wait.
    Busy,
    /// After `close`, or still in the queue at its end.
    Closed,
    /// The dispatcher could not be started, or ended by an error of ours.
    Internal,
}

/// All reasons, in the order of their numbers.
pub const REASONS: [Reason; 13] = [
    Reason::QueueFull,
    Reason::NoReceiver,
    Reason::WouldBlock,
    Reason::NoBuffers,
    Reason::Unresolved,
    Reason::Network,
    Reason::MessageSize,
    Reason::TooLong,
    Reason::Unsupported,
    Reason::Invalid,
    Reason::Busy,
    Reason::Closed,
    Reason::Internal,
];

impl Reason {
    /// Its name in self-metrics and `status`.
    pub fn name(self) -> &'static str {
        match self {
            Reason::QueueFull => "queue_full",
            Reason::NoReceiver => "no_receiver",
            Reason::WouldBlock => "would_block",
            Reason::NoBuffers => "no_buffers",
            Reason::Unresolved => "unresolved",
            Reason::Network => "network",
            Reason::MessageSize => "message_size",
            Reason::TooLong => "too_long",
            Reason::Unsupported => "unsupported",
            Reason::Invalid => "invalid",
            Reason::Busy => "busy",
            Reason::Closed => "closed",
            Reason::Internal => "internal",
        }
    }

    /// The reason for an error of connecting or sending.
    pub fn of(error: &io::Error) -> Reason {
        match error.raw_os_error() {
            Some(libc::EAGAIN) => Reason::WouldBlock,
            Some(libc::ENOBUFS | libc::ENOMEM) => Reason::NoBuffers,
            Some(libc::EMSGSIZE) => Reason::MessageSize,
            Some(
                libc::ECONNREFUSED | libc::ENOENT | libc::ENOTCONN | libc::ECONNRESET | libc::EPIPE,
            ) => Reason::NoReceiver,
            _ => Reason::Network,
        }
    }
}

/// Numbers of lines, datagrams and bytes of datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Lines.
    pub lines: u64,
    /// Datagrams, or frames of a stream.
    pub packets: u64,
    /// Their payload, bytes.
    pub bytes: u64,
}

impl Amount {
    /// Lines that are in no packet.
    pub(crate) fn lines(lines: u64) -> Amount {
        Amount { lines, ..Amount::default() }
    }

    pub(crate) fn add(&mut self, other: Amount) {
        self.lines += other.lines;
        self.packets += other.packets;
        self.bytes += other.bytes;
    }

    /// Subtracts; never below zero.
    pub(crate) fn take(&mut self, other: Amount) {
        self.lines = self.lines.saturating_sub(other.lines);
        self.packets = self.packets.saturating_sub(other.packets);
        self.bytes = self.bytes.saturating_sub(other.bytes);
    }
}

/// The account of a sink in this process (a forked child begins at zero). Plain values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Everything that was to be sent.
    pub produced: Amount,
    /// What was given to the kernel.
    pub sent: Amount,
    /// What was lost; index with `Reason as usize`.
    pub dropped: [Amount; REASONS.len()],
    /// What waits in the queue, including what is on its way to the kernel.
    pub waiting: Amount,
    /// Failures of connecting and sending, each try for itself; index as `dropped`.
    pub errors: [u64; REASONS.len()],
    /// Connections made.
    pub connects: u64,
    /// Lines that went without their tags, since plain StatsD has none.
    pub without_tags: u64,
    /// Where lines go, as the settings say it; `off` when nowhere.
    pub target: String,
    /// The reason why nothing goes at the moment; None: lines go, or nothing was tried yet.
    pub down: Option<Reason>,
    /// The last error in words.
    pub last_error: String,
}

impl Stats {
    /// What was lost, for whatever reason.
    pub fn lost(&self) -> Amount {
        let mut all = Amount::default();
        self.dropped.iter().for_each(|amount| all.add(*amount));
        all
    }

    /// What was lost for this reason.
    pub fn lost_by(&self, reason: Reason) -> Amount {
        self.dropped[reason as usize]
    }

    /// Whether every line, packet and byte is accounted for.
    pub fn adds_up(&self) -> bool {
        let mut all = self.lost();
        all.add(self.sent);
        all.add(self.waiting);
        all == self.produced
    }

    /// The counters behind the self-metrics, in the order of `meters`.
    pub(crate) fn meter_values(&self) -> Vec<u64> {
        let (made, sent) = (self.produced, self.sent);
        let mut values = vec![
            made.lines,
            made.packets,
            made.bytes,
            sent.lines,
            sent.packets,
            sent.bytes,
            self.connects,
        ];
        for reason in REASONS {
            let lost = self.lost_by(reason);
            let errors = self.errors[reason as usize];
            values.extend([lost.lines, lost.packets, lost.bytes, errors]);
        }
        values
    }
}

/// Name and reason of each self-metric that counts.
pub(crate) fn meters() -> impl Iterator<Item = (&'static str, Option<Reason>)> {
    const PLAIN: [&str; 7] = [
        "lines.produced",
        "packets.produced",
        "bytes.produced",
        "lines.sent",
        "packets.sent",
        "bytes.sent",
        "connects",
    ];
    const BY_REASON: [&str; 4] = ["lines.dropped", "packets.dropped", "bytes.dropped", "errors"];
    let by_reason = REASONS.into_iter().flat_map(|r| BY_REASON.map(|name| (name, Some(r))));
    PLAIN.into_iter().map(|name| (name, None)).chain(by_reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_number_its_name_and_its_meters() {
        let mut names: Vec<_> = REASONS.iter().map(|r| r.name()).collect();
        assert!(REASONS.iter().enumerate().all(|(n, reason)| *reason as usize == n));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), REASONS.len());
        assert_eq!(meters().count(), Stats::default().meter_values().len());
    }

    #[test]
    fn self_metrics_have_the_counter_of_their_name() {
        let mut stats = Stats::default();
        stats.sent.bytes = 7;
        stats.dropped[Reason::TooLong as usize].lines = 8;
        stats.errors[Reason::MessageSize as usize] = 9;
        let all: Vec<_> = meters().zip(stats.meter_values()).filter(|m| m.1 > 0).collect();
        let wanted = [
            (("bytes.sent", None), 7),
            (("errors", Some(Reason::MessageSize)), 9),
            (("lines.dropped", Some(Reason::TooLong)), 8),
        ];
        assert_eq!(all, wanted);
    }

    #[test]
    fn errors_have_their_reasons() {
        let of = |errno| Reason::of(&io::Error::from_raw_os_error(errno));
        assert_eq!(of(libc::EAGAIN), Reason::WouldBlock);
        assert_eq!(of(libc::ENOBUFS), Reason::NoBuffers);
        assert_eq!(of(libc::ENOMEM), Reason::NoBuffers);
        assert_eq!(of(libc::EMSGSIZE), Reason::MessageSize);
        for gone in
            [libc::ECONNREFUSED, libc::ENOENT, libc::ENOTCONN, libc::ECONNRESET, libc::EPIPE]
        {
            assert_eq!(of(gone), Reason::NoReceiver);
        }
        assert_eq!(of(libc::EPERM), Reason::Network);
        assert_eq!(of(libc::ENETUNREACH), Reason::Network);
    }
}
