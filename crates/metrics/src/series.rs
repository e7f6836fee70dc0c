//! A series: its identity, and the state of it that all shards share.

use std::sync::atomic::AtomicU64;
use std::sync::Arc;

use crate::window::{Id, Kind};

/// The largest number of series.
pub const MOST_SERIES: usize = 8192;
/// The largest number of bytes of a name, a tag's key, a tag's value.
pub const MOST_TEXT: usize = 255;
/// The largest number of tags of a series.
pub const MOST_TAGS: usize = 32;

/// A series; lives as long as the process, and in its forked children.
#[derive(Debug)]
pub struct Series {
    /// Its identity.
    pub id: Id,
    /// The share of the calls that are let through, above 0 and at most 1. Values of different
    /// rates stand for different numbers of values, so a rate makes a series of its own.
    pub rate: f64,
    /// Its place in each shard.
    pub(crate) slot: usize,
    /// The same for a series without a rate; for others a place that no shard has.
    pub(crate) plain_slot: usize,
    /// Number of the last `set` of a gauge. A delta counts as long as no later set came. Relaxed,
    /// since a set and a delta at the same time may come in either order.
    pub(crate) sets: AtomicU64,
    /// The number of the last set that was in a window. Written by the collector.
    pub(crate) sets_seen: AtomicU64,
}

impl Series {
    /// The same for the life of the process, in its forked children too; never 0.
    #[inline]
    pub fn number(&self) -> u32 {
        self.slot as u32 + 1
    }
}

/// The identity of a series, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// Kind.
    pub kind: Kind,
    /// Name.
    pub name: &'a str,
    /// Tags, sorted.
    pub tags: &'a [(&'a str, &'a str)],
    /// Rate.
    pub rate: f64,
}

impl Key<'_> {
    /// Eight bytes a step, since a step waits for the one before it. Not hardened against names
    /// made to collide: a program does not attack itself, and probes are bounded.
    pub(crate) fn hash(&self) -> u64 {
        let begin = stirred(self.rate.to_bits(), self.kind as u64 + 1);
        let named = of_text(begin, self.name);
        self.tags.iter().fold(named, |hash, (key, value)| of_text(of_text(hash, key), value))
    }

    pub(crate) fn is(&self, series: &Series) -> bool {
        let id = &series.id;
        id.kind == self.kind
            && *id.name == *self.name
            && id.tags.len() == self.tags.len()
            && id.tags.iter().zip(self.tags).all(|(a, b)| *a.0 == *b.0 && *a.1 == *b.1)
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
                tags: self.tags.iter().map(|(k, v)| (Box::from(*k), Box::from(*v))).collect(),
            },
            rate: self.rate,
            slot,
            plain_slot: if self.rate >= 1.0 { slot } else { usize::MAX },
            sets: AtomicU64::new(0),
            sets_seen: AtomicU64::new(0),
        }
    }
}

/// One step: both halves of a product, so that each bit of `word` reaches the low ones.
#[inline]
fn stirred(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word) * 0x9e37_79b9_7f4a_7c15;
    (product >> 64) as u64 ^ product as u64
}

/// With the length in the last step, so that the boundary between two texts counts.
#[inline]
fn of_text(hash: u64, text: &str) -> u64 {
    let (mut hash, mut rest) = (hash, text.as_bytes());
    while let Some((eight, more)) = rest.split_first_chunk::<8>() {
        (hash, rest) = (stirred(hash, u64::from_le_bytes(*eight)), more);
    }
    let last = match (rest.first_chunk::<4>(), rest.last_chunk::<4>()) {
        // The two may overlap.
        (Some(first), Some(last)) => {
            u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last))
        }
        _ => rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    };
    stirred(hash, last ^ (text.len() as u64).rotate_right(8))
}
