//! Packing: lines into datagrams.
//!
//! How it works: lines are joined by `\n` up to the configured size. A *unit* is one or more lines
//! that stay in one datagram (a negative gauge and the reset before it).
//!
//! What it promises: no packet is larger than the size, no line is cut, the order is kept. A unit
//! that does not fit alone is refused and counted.

use crate::stats::{Amount, Reason};

/// Receives lines, or the number of lines that were refused.
pub(crate) trait Out {
    /// Lines that stay together, without a `\n` at the end.
    fn unit(&mut self, text: &str);
    /// Lines that cannot be sent.
    fn refused(&mut self, reason: Reason, lines: u64);
}

/// A datagram that waits.
#[derive(Debug, Default)]
pub(crate) struct Packet {
    /// Lines joined by `\n`.
    pub(crate) bytes: Vec<u8>,
    /// Lines in it.
    pub(crate) lines: u64,
    /// Self-metrics in it: number of the meter and what it reports.
    pub(crate) reports: Vec<(usize, i64)>,
}

impl Packet {
    /// Lines and bytes in it, and one packet.
    pub(crate) fn amount(&self) -> Amount {
        Amount { lines: self.lines, packets: 1, bytes: self.bytes.len() as u64 }
    }

    /// Appends `text` if it fits into `most` bytes.
    pub(crate) fn add(&mut self, text: &str, most: usize) -> bool {
        let gap = usize::from(!self.bytes.is_empty());
        if self.bytes.len() + gap + text.len() > most {
            return false;
        }
        if gap == 1 {
            self.bytes.push(b'\n');
        }
        self.bytes.extend_from_slice(text.as_bytes());
        self.lines += lines_in(text);
        true
    }
}

/// Lines of a unit.
pub(crate) fn lines_in(text: &str) -> u64 {
    1 + text.bytes().filter(|b| *b == b'\n').count() as u64
}

/// Fills packets.
#[derive(Debug)]
pub(crate) struct Packer {
    most: usize,
    /// Full packets and the one being filled.
    pub(crate) packets: Vec<Packet>,
    /// What was refused, by reason.
    pub(crate) refused: Vec<(Reason, u64)>,
    /// The first line that was too long, in words.
    pub(crate) too_long: Option<String>,
}

impl Packer {
    /// For packets of at most `most` bytes.
    pub(crate) fn new(most: usize) -> Packer {
        Packer { most, packets: Vec::new(), refused: Vec::new(), too_long: None }
    }

    /// A self-metric's line. False: too long, and counted as that.
    pub(crate) fn report(&mut self, text: &str, meter: usize, value: i64) -> bool {
        let fits = self.put(text);
        if let Some(packet) = self.packets.last_mut().filter(|_| fits) {
            packet.reports.push((meter, value));
        }
        fits
    }

    fn put(&mut self, text: &str) -> bool {
        if self.packets.last_mut().is_some_and(|packet| packet.add(text, self.most)) {
            return true;
        }
        let mut packet = Packet { bytes: Vec::with_capacity(self.most), ..Packet::default() };
        if packet.add(text, self.most) {
            self.packets.push(packet);
            return true;
        }
        self.refused(Reason::TooLong, lines_in(text));
        if self.too_long.is_none() {
            self.too_long = Some(too_long(text, self.most));
        }
        false
    }
}

impl Out for Packer {
    fn unit(&mut self, text: &str) {
        self.put(text);
    }

    fn refused(&mut self, reason: Reason, lines: u64) {
        match self.refused.iter_mut().find(|entry| entry.0 == reason) {
            Some(entry) => entry.1 += lines,
            None => self.refused.push((reason, lines)),
        }
    }
}

/// The message about a line that is too long.
pub(crate) fn too_long(text: &str, most: usize) -> String {
    let begin: String = text.chars().take(60).collect();
    let found = text.len();
    format!(
        "line {begin:?}...: found {found} bytes, wanted at most {most}; use fewer or shorter tags, \
         or a larger DASHCAM_STATSD_PACKET"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(packer: &Packer) -> Vec<String> {
        packer.packets.iter().map(|p| String::from_utf8_lossy(&p.bytes).into_owned()).collect()
    }

    #[test]
    fn lines_are_joined_up_to_the_size_and_not_past_it() {
        let mut packer = Packer::new(11);
        for line in ["a:1|c", "b:1|c", "c:1|c", "long:12345|c", "d:1|c", "e:2|g\nf:3|g"] {
            packer.unit(line);
        }
        assert_eq!(texts(&packer), ["a:1|c\nb:1|c", "c:1|c\nd:1|c", "e:2|g\nf:3|g"]);
        assert_eq!(packer.packets.iter().map(|p| p.lines).sum::<u64>(), 6);
        assert_eq!(packer.refused, [(Reason::TooLong, 1)]);
        let said = packer.too_long.expect("it is reported");
        assert!(said.contains("found 12 bytes, wanted at most 11"), "{said}");
    }

    #[test]
    fn a_unit_is_never_torn() {
        let mut packer = Packer::new(12);
        packer.unit("a:1|c");
        packer.unit("g:0|g\ng:-1|g");
        packer.unit("h:0|g\nh:-12|g");
        assert_eq!(texts(&packer), ["a:1|c", "g:0|g\ng:-1|g"]);
        assert_eq!(packer.refused, [(Reason::TooLong, 2)]);
    }

    #[test]
    fn a_report_lies_with_its_packet() {
        let mut packer = Packer::new(11);
        packer.unit("a:1|c");
        assert!(packer.report("m:5|c", 3, 5));
        assert!(packer.report("n:6|c", 4, 6));
        assert!(!packer.report("far_too_long:6|c", 5, 6));
        let reports: Vec<_> = packer.packets.iter().map(|p| p.reports.clone()).collect();
        assert_eq!(reports, [vec![(3, 5)], vec![(4, 6)]]);
    }
}
