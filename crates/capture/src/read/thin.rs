//! Thins very many requests: one that was not slow stands for several.
//!
//! How it works: past `MOST` rows the slowest of all and of each kind (name, failed or not, on a
//! loop or not) stay as they are. Of the others, two neighbours that stand for equally many become
//! one of the two, chosen by chance, that stands for both. Neighbours are of a kind and next to
//! each other as they were read: of one thread, one after the other, for the most part. Rows that
//! stand for fewest are joined first, so all stand for about as many.
//!
//! What it promises: sums of `RequestRow::times` by kind are those of all rows; medians weighted by
//! it are not biased.

use super::quick::QuickMap;
use super::rows::RequestRow;

/// Requests in memory for `Wanted::Causes`: 10 MiB of rows.
pub(super) const MOST: usize = 1 << 17;

/// Thins rows, all of which have an end, to at most three quarters of `most` if the kinds are few.
/// `gone` is called with each row that is dropped. The order stays. Cost: a few walks.
pub(super) fn thin(rows: &mut Vec<RequestRow>, most: usize, mut gone: impl FnMut(&RequestRow)) {
    let mut kinds = Kinds::of(rows, most);
    let mut times = 1;
    while rows.len() > most / 4 * 3 && times < 1 << 31 {
        kinds.join(rows, times);
        rows.retain(|row| {
            if row.times == 0 {
                gone(row);
            }
            row.times > 0
        });
        times *= 2;
    }
}

/// What is known of each kind of request: its name, whether it failed, whether it ran on a loop.
struct Kinds(QuickMap<u64, Kind>);

#[derive(Default)]
struct Kind {
    took: Vec<u64>,
    /// Longer ones stay as they are.
    limit_ns: Option<u64>,
    /// The row that has no neighbour yet.
    alone: Option<usize>,
}

impl Kinds {
    fn of(rows: &[RequestRow], most: usize) -> Kinds {
        let mut kinds: QuickMap<u64, Kind> = QuickMap::default();
        for row in rows {
            kinds.entry(kind(row)).or_default().took.push(ns(row));
        }
        let all_ns = limit(rows.iter().map(ns).collect(), most / 8).unwrap_or(0);
        // At least a few of each.
        let slowest = (most / 8 / kinds.len().max(1)).max(8);
        for own in kinds.values_mut() {
            own.limit_ns = limit(std::mem::take(&mut own.took), slowest).map(|ns| ns.min(all_ns));
        }
        Kinds(kinds)
    }

    /// Of each two neighbours of a kind that stand for `times`, one then stands for both and the
    /// other for none; not of those past the limit.
    fn join(&mut self, rows: &mut [RequestRow], times: u32) {
        self.0.values_mut().for_each(|own| own.alone = None);
        for at in 0..rows.len() {
            let row = &rows[at];
            let Some(own) = self.0.get_mut(&kind(row)) else { continue };
            if row.times != times || own.limit_ns.is_none_or(|limit_ns| ns(row) > limit_ns) {
                continue;
            }
            let Some(before) = own.alone.take() else {
                own.alone = Some(at);
                continue;
            };
            let (kept, goes) = if coin(rows[before].id) { (before, at) } else { (at, before) };
            rows[kept].times *= 2;
            rows[goes].times = 0;
        }
    }
}

fn kind(row: &RequestRow) -> u64 {
    u64::from(row.name) << 2 | u64::from(row.error) << 1 | u64::from(row.on_loop)
}

/// The longest duration of all but the `slowest`; None if there are no others.
fn limit(mut took: Vec<u64>, slowest: usize) -> Option<u64> {
    let others = took.len().checked_sub(slowest + 1)?;
    Some(*took.select_nth_unstable(others).1)
}

fn ns(row: &RequestRow) -> u64 {
    row.end_ns.unwrap_or(row.begin_ns).saturating_sub(row.begin_ns)
}

/// A bit of each id that is independent of its neighbours' bits, although ids count up.
fn coin(id: u64) -> bool {
    // The multiplier of Fibonacci hashing: 2^64 over the golden ratio.
    let mixed = (id ^ (id >> 17)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 63 == 1
}
