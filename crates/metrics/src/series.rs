//! Who a series is, and what all shards share of it.

use std::sync::atomic::AtomicU64;
use std::sync::Arc;

use crate::window::{Id, Kind};

/// Most bytes of a name, a tag's key, a tag's value.
pub const MOST_TEXT: usize = 255;
/// Most tags of a series.
pub const MOST_TAGS: usize = 32;

/// A series; lives as long as the process, and in its forked children.
#[derive(Debug)]
pub struct Series {
    /// Who.
    pub id: Id,
    /// The share of the calls that are let through, above 0 and at most 1. Values of different
    /// rates stand for different numbers of values, so a rate makes a series of its own.
    pub rate: f64,
    /// Its place in each shard.
    pub(crate) slot: usize,
    /// Number of the last `set` of a gauge. A delta is good as long as no later set came; relaxed,
    /// since a set and a delta at the same time may come in either order.
    pub(crate) sets: AtomicU64,
    /// The number of the last set that was in a window. Written by the collector.
    pub(crate) sets_seen: AtomicU64,
}

/// What tells series apart, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// Kind.
    pub kind: Kind,
    /// Name.
    pub name: &'a str,
    /// Tags, sorted.
    pub tags: &'a [(Box<str>, Box<str>)],
    /// Rate.
    pub rate: f64,
}

impl Key<'_> {
    /// FNV-1a: short texts; a program that names its own series does not attack itself.
    pub(crate) fn hash(&self) -> u64 {
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        let text = |hash, text: &str| step(text.bytes().fold(hash, step), 0xff);
        let begin = step(0xcbf2_9ce4_8422_2325, self.kind as u8);
        let named = text(begin, self.name);
        let tagged = self.tags.iter().fold(named, |h, (key, value)| text(text(h, key), value));
        self.rate.to_bits().to_le_bytes().into_iter().fold(tagged, step)
    }

    pub(crate) fn is(&self, series: &Series) -> bool {
        let id = &series.id;
        id.kind == self.kind
            && *id.name == *self.name
            && *id.tags == *self.tags
            && series.rate.to_bits() == self.rate.to_bits()
    }

    pub(crate) fn is_within_bounds(&self) -> bool {
        let fits = |text: &str| text.len() <= MOST_TEXT;
        (1..=MOST_TEXT).contains(&self.name.len())
            && self.tags.len() <= MOST_TAGS
            && self.tags.iter().all(|(key, value)| fits(key) && fits(value))
            && self.rate > 0.0
            && self.rate <= 1.0
    }

    pub(crate) fn make(&self, slot: usize) -> Series {
        Series {
            id: Id {
                kind: self.kind,
                name: Arc::from(self.name),
                tags: self.tags.iter().cloned().collect(),
            },
            rate: self.rate,
            slot,
            sets: AtomicU64::new(0),
            sets_seen: AtomicU64::new(0),
        }
    }
}
