//! Protobuf: the writing half, and as much of the reading half as an answer needs.
//!
//! How it works: a message is a row of fields: key (number << 3 | wire type), then the value. A
//! value that is zero or empty is left out, as in proto3, unless the field's presence has a
//! meaning.

/// Bytes of a message under construction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    bytes: Vec<u8>,
}

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const BYTES: u32 = 2;
const FIXED32: u32 = 5;

impl Message {
    /// Empty.
    pub fn new() -> Message {
        Message::default()
    }

    /// How long it is so far, bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Nothing was written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The finished bytes.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }

    fn raw_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn key(&mut self, field: u32, coded: u32) {
        self.raw_varint(u64::from(field << 3 | coded));
    }

    /// A whole number, bool or enum; left out when 0.
    pub fn varint(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.present_varint(field, value);
        }
    }

    /// As `varint`, written also when 0: one of a `oneof`.
    pub fn present_varint(&mut self, field: u32, value: u64) {
        self.key(field, VARINT);
        self.raw_varint(value);
    }

    /// Eight bytes; left out when 0.
    pub fn fixed64(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.present_fixed64(field, value);
        }
    }

    /// As `fixed64`, written also when 0.
    pub fn present_fixed64(&mut self, field: u32, value: u64) {
        self.key(field, FIXED64);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Four bytes; left out when 0.
    pub fn fixed32(&mut self, field: u32, value: u32) {
        if value != 0 {
            self.key(field, FIXED32);
            self.bytes.extend_from_slice(&value.to_le_bytes());
        }
    }

    /// A double, written also when 0.
    pub fn double(&mut self, field: u32, value: f64) {
        self.present_fixed64(field, value.to_bits());
    }

    /// Bytes or text; left out when empty.
    pub fn text(&mut self, field: u32, value: impl AsRef<[u8]>) {
        if !value.as_ref().is_empty() {
            self.present_text(field, value);
        }
    }

    /// As `text`, written also when empty.
    pub fn present_text(&mut self, field: u32, value: impl AsRef<[u8]>) {
        let value = value.as_ref();
        self.key(field, BYTES);
        self.raw_varint(value.len() as u64);
        self.bytes.extend_from_slice(value);
    }

    /// A message inside of this one, written also when it is empty.
    pub fn message(&mut self, field: u32, fill: impl FnOnce(&mut Message)) {
        self.key(field, BYTES);
        let at = self.bytes.len();
        fill(self);
        let length = self.bytes.len() - at;
        // Its length comes before it: most are short enough for one byte, which is reserved here.
        let mut head = Message::default();
        head.raw_varint(length as u64);
        self.bytes.splice(at..at, head.bytes);
    }

    /// Eight bytes each, packed; left out when there are none.
    pub fn packed64(&mut self, field: u32, values: impl ExactSizeIterator<Item = u64>) {
        if values.len() == 0 {
            return;
        }
        self.key(field, BYTES);
        self.raw_varint(values.len() as u64 * 8);
        values.for_each(|value| self.bytes.extend_from_slice(&value.to_le_bytes()));
    }
}

/// A field that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field<'b> {
    /// A varint or a fixed number.
    Number(u64),
    /// Text, bytes or a message.
    Bytes(&'b [u8]),
}

/// The fields of a message, by number; ends at the first invalid byte.
pub fn fields(mut bytes: &[u8]) -> impl Iterator<Item = (u32, Field<'_>)> {
    std::iter::from_fn(move || {
        let key = read_varint(&mut bytes)?;
        let mut fixed = |count: usize| {
            let (head, tail) = bytes.split_at_checked(count)?;
            bytes = tail;
            Some(head.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte)))
        };
        let field = match key as u32 & 7 {
            FIXED64 => Field::Number(fixed(8)?),
            FIXED32 => Field::Number(fixed(4)?),
            VARINT => Field::Number(read_varint(&mut bytes)?),
            BYTES => {
                let length = usize::try_from(read_varint(&mut bytes)?).ok()?;
                let (head, tail) = bytes.split_at_checked(length)?;
                bytes = tail;
                Field::Bytes(head)
            }
            _ => return None,
        };
        Some(((key >> 3) as u32, field))
    })
}

fn read_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let mut made = Message::new();
        made.varint(1, 0);
        made.varint(2, 300);
        made.fixed64(3, u64::MAX);
        made.fixed32(4, 7);
        made.text(5, "päris");
        made.message(6, |inner| inner.text(1, "x".repeat(200)));
        made.packed64(7, [1, 2].into_iter());
        made.message(8, |_| ());
        let bytes = made.finish();
        let found: Vec<_> = fields(&bytes).collect();
        assert_eq!(found[0], (2, Field::Number(300)));
        assert_eq!(found[1], (3, Field::Number(u64::MAX)));
        assert_eq!(found[2], (4, Field::Number(7)));
        assert_eq!(found[3], (5, Field::Bytes("päris".as_bytes())));
        let (6, Field::Bytes(inner)) = found[4] else { panic!("{:?}", found[4]) };
        assert!(matches!(fields(inner).next(), Some((1, Field::Bytes(x))) if x.len() == 200));
        let mut packed = [0; 16];
        (packed[0], packed[8]) = (1, 2);
        assert_eq!(found[5], (7, Field::Bytes(&packed)));
        assert_eq!(found[6..], [(8, Field::Bytes(&[]))]);
    }

    #[test]
    fn the_bytes_are_those_of_the_protocol_buffers_guide() {
        let mut made = Message::new();
        made.varint(1, 150);
        made.text(2, "testing");
        made.message(3, |inner| inner.varint(1, 150));
        let wanted = b"\x08\x96\x01\x12\x07testing\x1a\x03\x08\x96\x01";
        assert_eq!(made.finish(), wanted);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic() {
        let mut word = 88_172_645_463_325_252u64;
        for _ in 0..20_000 {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            let bytes = [word.to_le_bytes(), word.rotate_left(23).to_be_bytes()].concat();
            assert!(fields(&bytes[..(word % 17) as usize]).count() <= 16);
        }
    }
}
