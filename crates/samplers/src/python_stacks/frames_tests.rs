//! How much of a stack two walks agree on.

use super::*;

fn stack(frames: &[(usize, usize, i64)]) -> Vec<RawFrame> {
    let frame = |&(address, code, offset)| RawFrame { address, code, offset, owner: 0 };
    frames.iter().map(frame).collect()
}

#[test]
fn equal_walks_are_settled_and_a_moving_leaf_does_not_matter() {
    let first = stack(&[(30, 3, 8), (20, 2, 4), (10, 1, 2)]);
    let second = stack(&[(30, 3, 10), (20, 2, 4), (10, 1, 2)]);
    assert_eq!(settle(&first, &second), 0);
    assert_eq!(settle(&[], &[]), 0);
}

#[test]
fn a_replaced_leaf_and_a_moved_caller_are_not() {
    let first = stack(&[(30, 3, 8), (20, 2, 4), (10, 1, 2)]);
    assert_eq!(settle(&first, &stack(&[(30, 9, 8), (20, 2, 4), (10, 1, 2)])), 1);
    assert_eq!(settle(&first, &stack(&[(30, 3, 8), (20, 2, 6), (10, 1, 2)])), 2);
    assert_eq!(settle(&first, &stack(&[(77, 7, 0)])), 1);
}

#[test]
fn truncated_walks_meet_where_both_have_frames() {
    let first = stack(&[(30, 3, 8), (20, 2, 4)]);
    let second = stack(&[(40, 4, 0), (30, 3, 8)]);
    assert_eq!(settle(&first, &second), 1);
}
