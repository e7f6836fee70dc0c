//! Places slices in lanes, so that the slices of a lane nest.
//!
//! How it works: of what was placed only the ends of open slices are kept, so a capture that is
//! read in parts has the same lanes as one that is read in whole.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::track::Slice;

/// Lanes of a group that are tried before a new lane is taken.
const MOST_TRIED: usize = 16;

#[derive(Default)]
struct Lane {
    /// Ends of the open slices, outermost first.
    open: Vec<u64>,
    group: u64,
    /// End of the outermost slice.
    until_ns: u64,
}

/// The lanes of one track, and which slices are open in them.
#[derive(Default)]
pub struct Lanes {
    lanes: Vec<Lane>,
    of_group: HashMap<u64, Vec<usize>>,
    free: Free,
}

/// Places slices in lanes of their own.
pub fn nested(slices: Vec<Slice<'_>>) -> Vec<Vec<Slice<'_>>> {
    Lanes::default().place(slices)
}

impl Lanes {
    /// Places slices in few lanes. Two slices of a lane are apart, or belong to one group and one
    /// lies within the other. A group's first lane is used as long as it nests. Each lane is sorted
    /// by begin, outer slices first. Slices that were placed before began earlier: these may be
    /// within them. Lanes in which nothing was placed are empty.
    pub fn place<'c>(&mut self, mut slices: Vec<Slice<'c>>) -> Vec<Vec<Slice<'c>>> {
        slices.sort_by_key(|s| (s.begin_ns, Reverse(s.end_ns)));
        let last_ns = slices.last().map_or(0, |slice| slice.begin_ns);
        let mut placed: Vec<Vec<Slice<'c>>> = Vec::new();
        placed.resize_with(self.lanes.len(), Vec::new);
        for mut slice in slices {
            slice.end_ns = slice.end_ns.max(slice.begin_ns);
            let i = self.lane_of(&slice);
            if i == placed.len() {
                placed.push(Vec::new());
            }
            let lane = &mut self.lanes[i];
            if lane.open.is_empty() {
                lane.until_ns = slice.end_ns;
                self.free.busy.push(Reverse((slice.end_ns, i)));
            }
            lane.open.push(slice.end_ns);
            placed[i].push(slice);
        }
        // Slices that come later belong to a group only if it is still open.
        let lanes = &self.lanes;
        self.of_group.retain(|group, known| {
            known.retain(|i| lanes[*i].group == *group && lanes[*i].until_ns > last_ns);
            !known.is_empty()
        });
        placed
    }

    fn lane_of(&mut self, slice: &Slice<'_>) -> usize {
        let Lanes { lanes, of_group, free } = self;
        let (begin_ns, end_ns, group) = (slice.begin_ns, slice.end_ns, slice.group);
        let known = of_group.entry(group).or_default();
        let fits = |i: &&usize| {
            let lane = &mut lanes[**i];
            while lane.open.last().is_some_and(|open_ns| *open_ns <= begin_ns) {
                lane.open.pop();
            }
            lane.group == group && lane.open.last().is_none_or(|open_ns| *open_ns >= end_ns)
        };
        let found = known.iter().take(MOST_TRIED).find(fits).copied();
        found.unwrap_or_else(|| {
            let i = free.take(lanes, begin_ns);
            lanes[i].group = group;
            known.push(i);
            i
        })
    }
}

/// Finds lanes with no open slice.
#[derive(Default)]
struct Free {
    /// By the end of the outermost slice, with the lane.
    busy: BinaryHeap<Reverse<(u64, usize)>>,
    /// Finished, by lane: the first one is taken, so that the upper lanes are full.
    over: BinaryHeap<Reverse<usize>>,
}

impl Free {
    /// A lane with no open slice, or a new one; empty.
    fn take(&mut self, lanes: &mut Vec<Lane>, begin_ns: u64) -> usize {
        while let Some(Reverse((until_ns, i))) = self.busy.peek().copied() {
            if until_ns > begin_ns {
                break;
            }
            self.busy.pop();
            self.over.push(Reverse(i));
        }
        while let Some(Reverse(i)) = self.over.pop() {
            // Its group may have continued in it since.
            if lanes[i].until_ns <= begin_ns {
                lanes[i].open.clear();
                return i;
            }
        }
        lanes.push(Lane::default());
        lanes.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(begin_ns: u64, end_ns: u64, group: u64) -> Slice<'static> {
        let (name, category, args) = ("s".into(), "span", Vec::new());
        Slice { begin_ns, end_ns, name, category, args, group, flow: None }
    }

    fn shape(slices: Vec<Slice<'_>>) -> Vec<Vec<(u64, u64)>> {
        let times = |s: &Slice<'_>| (s.begin_ns, s.end_ns);
        nested(slices).iter().map(|lane| lane.iter().map(times).collect()).collect()
    }

    #[test]
    fn nested_slices_share_a_lane_and_overlapping_ones_do_not() {
        let one =
            [(0, 10), (0, 4), (4, 9), (5, 12), (12, 13), (20, 30)].map(|(b, e)| slice(b, e, 1));
        let wanted = [vec![(0, 10), (0, 4), (4, 9), (12, 13), (20, 30)], vec![(5, 12)]];
        assert_eq!(shape(one.to_vec()), wanted);
    }

    #[test]
    fn groups_share_a_lane_only_one_after_the_other() {
        let two =
            [slice(0, 10, 1), slice(2, 5, 2), slice(5, 8, 3), slice(1, 2, 1), slice(10, 11, 4)];
        let wanted = [vec![(0, 10), (1, 2), (10, 11)], vec![(2, 5), (5, 8)]];
        assert_eq!(shape(two.to_vec()), wanted);
    }

    fn check(lanes: &[Vec<Slice<'_>>]) {
        assert_eq!(lanes.iter().map(Vec::len).sum::<usize>(), 100);
        for (a, b) in lanes.iter().flat_map(|l| {
            l.iter().enumerate().flat_map(|(i, a)| l[i + 1..].iter().map(move |b| (a, b)))
        }) {
            let apart = a.end_ns <= b.begin_ns;
            let within = a.group == b.group && b.end_ns <= a.end_ns;
            assert!(a.begin_ns <= b.begin_ns && (apart || within), "{a:?} {b:?}");
        }
    }

    #[test]
    fn any_slices_end_up_nested_and_none_is_lost() {
        let mut word = 88_172_645_463_325_252u64;
        let mut random = |below: u64| {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            word % below
        };
        for _ in 0..200 {
            let made: Vec<_> = (0..100)
                .map(|_| {
                    let begin_ns = random(60);
                    slice(begin_ns, begin_ns + random(25), random(5))
                })
                .collect();
            check(&nested(made.clone()));
            // The same if they come in two parts, one behind the other in time.
            let (first, rest) = made.into_iter().partition(|s| s.begin_ns < 30);
            let mut kept = Lanes::default();
            let mut both = kept.place(first);
            for (i, lane) in kept.place(rest).into_iter().enumerate() {
                match both.get_mut(i) {
                    Some(before) => before.extend(lane),
                    None => both.push(lane),
                }
            }
            check(&both);
        }
    }
}
