//! Thins very many requests: one that was not slow stands for several.
//!
//! How it works: past `MOST` rows the slowest of all and of each kind (name, failed or not, on a
//! loop or not) stay as they are. Of the others, two neighbours in time that stand for equally many
//! become one of the two, chosen by chance, that stands for both. Rows that stand for fewest are
//! joined first, so all stand for about as many.
//!
//! What it promises: sums of `RequestRow::times` by kind are those of all rows; medians weighted by
//! it are not biased.

use super::rows::RequestRow;

/// Requests in memory for `Wanted::Causes`: 10 MiB of rows.
pub(super) const MOST: usize = 1 << 17;

/// Thins rows, all of which have an end, to at most three quarters of `most` if the kinds are few.
/// `gone` is called with each row that is dropped. Cost: a sort.
pub(super) fn thin(rows: &mut Vec<RequestRow>, most: usize, mut gone: impl FnMut(&RequestRow)) {
    rows.sort_by_key(|r| (kind(r), r.begin_ns, r.id));
    let kinds = rows.chunk_by(|a, b| kind(a) == kind(b)).count();
    let all_ns = limit(rows, most / 8).unwrap_or(0);
    // At least a few of each.
    let slowest = (most / 8 / kinds.max(1)).max(8);
    let mut times = 1;
    while rows.len() > most / 4 * 3 && times < 1 << 31 {
        for own in rows.chunk_by_mut(|a, b| kind(a) == kind(b)) {
            join(own, all_ns, slowest, times);
        }
        rows.retain(|row| {
            if row.times == 0 {
                gone(row);
            }
            row.times > 0
        });
        times *= 2;
    }
}

type Kind = (u32, bool, bool);

fn kind(row: &RequestRow) -> Kind {
    (row.name, row.error, row.on_loop)
}

/// The longest duration of all but the `slowest`; None if there are no others.
fn limit(rows: &[RequestRow], slowest: usize) -> Option<u64> {
    let others = rows.len().checked_sub(slowest + 1)?;
    let mut took: Vec<u64> = rows.iter().map(ns).collect();
    Some(*took.select_nth_unstable(others).1)
}

/// Of each two neighbours that stand for `times`, one then stands for both and the other is
/// dropped; not of the `slowest`, nor of those that took longer than `all_ns`.
fn join(rows: &mut [RequestRow], all_ns: u64, slowest: usize, times: u32) {
    let Some(own_ns) = limit(rows, slowest) else { return };
    let limit = own_ns.min(all_ns);
    let mut alone: Option<usize> = None;
    for at in 0..rows.len() {
        if rows[at].times != times || ns(&rows[at]) > limit {
            continue;
        }
        let Some(before) = alone.take() else {
            alone = Some(at);
            continue;
        };
        let (stays, goes) = if coin(rows[before].id) { (before, at) } else { (at, before) };
        rows[stays].times *= 2;
        rows[goes].times = 0;
    }
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
