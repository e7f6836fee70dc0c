//! Kinds of differences, of sides made by hand.

use super::super::times::Times;
use super::*;

const MS: f64 = 1e6;

/// A side with `all` requests of 10 ms, and one cause in `slow` of them.
fn side(all: u64, slow: u64, found: &[(&str, Found)]) -> Side {
    let mut name = Name { slow, episodes: slow, ..Name::default() };
    name.times.add(10_000_000, all - slow);
    name.times.add(500_000_000, slow);
    name.normal.add(10_000_000, all - slow);
    let causes = found.iter().map(|(key, found)| ((*key).to_owned(), found.clone()));
    let causes: BTreeMap<String, Found> = causes.collect();
    let excess_ns = causes.values().map(|found| found.excess_ns).sum();
    let names = BTreeMap::from([("GET /".to_owned(), name)]);
    Side { names, causes, excess_ns, unlisted_ns: excess_ns * 0.05, ..Side::default() }
}

fn found(slow: u64, function: &str, line: u32) -> Found {
    let mut lasted = Times::default();
    lasted.add(500_000_000, slow);
    Found {
        cause: Cause::Sleep,
        place: Some(Place {
            function: function.to_owned(),
            qualified: function.to_owned(),
            file: "app.py".to_owned(),
            line,
            module: "app".to_owned(),
        }),
        culprit: None,
        request: "GET /".to_owned(),
        summary: String::new(),
        confidence: Confidence::Confirmed,
        excess_ns: slow as f64 * 490.0 * MS,
        slow,
        episodes: slow,
        lasted,
        captures: 1,
    }
}

fn kinds(difference: &Difference<'_>) -> Vec<Kind> {
    difference.causes.iter().map(|row| row.kind).collect()
}

#[test]
fn a_cause_is_new_or_gone_if_the_other_side_would_have_shown_it() {
    let (a, b) = (side(1000, 0, &[]), side(1000, 20, &[("f", found(20, "backoff", 41))]));
    let difference = Difference::of(&a, &b);
    assert!(difference.is_worse() && kinds(&difference) == [Kind::New]);
    assert_eq!(difference.names[0].slow, Kind::Grown);
    let back = Difference::of(&b, &a);
    assert!(!back.is_worse() && kinds(&back) == [Kind::Gone]);
}

#[test]
fn three_against_two_are_not_enough() {
    let a = side(1000, 2, &[("f", found(2, "backoff", 41))]);
    let b = side(1000, 3, &[("f", found(3, "backoff", 41))]);
    let difference = Difference::of(&a, &b);
    assert!(!difference.is_worse() && kinds(&difference) == [Kind::Unsure]);
    assert_eq!(difference.causes[0].doubt, Some(Doubt::Rare));
}

#[test]
fn a_small_part_of_a_large_excess_may_have_been_left_out_of_the_verdict() {
    let (large, small) = (("f", found(400, "backoff", 41)), ("g", found(16, "pause", 7)));
    let a = side(1000, 400, std::slice::from_ref(&large));
    let b = side(1000, 400, &[large, small]);
    let difference = Difference::of(&a, &b);
    assert!(!difference.is_worse() && kinds(&difference) == [Kind::Same, Kind::Same]);
}

#[test]
fn a_line_that_moved_is_the_same_cause() {
    let a = side(1000, 20, &[("f", found(20, "backoff", 41))]);
    let b = side(1000, 20, &[("f", found(20, "backoff", 57))]);
    let difference = Difference::of(&a, &b);
    assert_eq!(kinds(&difference), [Kind::Same]);
    assert_eq!(difference.causes[0].other_line(), Some(41));
}

#[test]
fn a_function_that_was_renamed_moved_and_is_not_worse() {
    let a = side(1000, 20, &[("f", found(20, "backoff", 41))]);
    let b = side(1000, 22, &[("g", found(22, "retry_later", 41))]);
    let difference = Difference::of(&a, &b);
    assert!(!difference.is_worse() && kinds(&difference) == [Kind::Moved, Kind::Gone]);
    assert_eq!(difference.causes[0].moved_from, Some("f"));
    assert_eq!(difference.causes[1].moved_to, Some("g"));
    let mut other = found(22, "retry_later", 41);
    other.request = "POST /".to_owned();
    let b = side(1000, 22, &[("g", other)]);
    assert_eq!(kinds(&Difference::of(&a, &b)), [Kind::New, Kind::Gone], "another request");
}

#[test]
fn as_often_and_longer_is_grown() {
    let a = side(1000, 20, &[("f", found(20, "backoff", 41))]);
    let mut longer = found(20, "backoff", 41);
    longer.lasted = Times::default();
    longer.lasted.add(2_000_000_000, 20);
    longer.excess_ns *= 4.0;
    let b = side(1000, 20, &[("f", longer)]);
    assert_eq!(kinds(&Difference::of(&a, &b)), [Kind::Grown]);
    assert_eq!(kinds(&Difference::of(&b, &a)), [Kind::Shrunk]);
}

#[test]
fn another_culprit_of_the_same_wait_is_no_new_cause() {
    let culprit = |name: &str| found(20, name, 9).place;
    let (mut was, mut is) = (found(20, "enter", 41), found(20, "enter", 41));
    (was.culprit, is.culprit) = (culprit("sweep"), culprit("audit"));
    let a = side(1000, 20, &[("f", was)]);
    is.excess_ns *= 0.4;
    let b = side(1000, 20, &[("g", is)]);
    let difference = Difference::of(&a, &b);
    assert!(!difference.is_worse(), "{:?}", kinds(&difference));
}

#[test]
fn what_is_only_possible_is_not_called_new() {
    let mut guess = found(20, "backoff", 41);
    guess.confidence = Confidence::Possible;
    let (a, b) = (side(1000, 0, &[]), side(1000, 20, &[("f", guess)]));
    let difference = Difference::of(&a, &b);
    assert_eq!(difference.causes[0].doubt, Some(Doubt::Possible));
    assert!(difference.is_worse(), "more requests are slow, whatever the cause");
}
