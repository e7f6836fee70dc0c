//! Seeds whose verdict was wrong once, each with what was fixed: they remain right, and nothing
//! about them is *confirmed* and wrong.

use sim::judge::case::{judge, verdict, Outcome};
use sim::program::draw;

/// A seed, and the defect that it is drawn with.
type Drawn = (u64, &'static str);

/// Seeds with switch records, and without.
type Seeds = (&'static [Drawn], &'static [Drawn]);

/// What each list has in common.
const FIXED: &[(&str, Seeds)] = &[
    (
        "the GIL's holder is the thread that held it for most of the wait",
        (&[(3, "gil_sort"), (309, "gil_sort"), (462, "gil_sort")], &[]),
    ),
    (
        "whose holder had no CPU for most of a wait for the GIL",
        (
            &[(15, "starved"), (117, "starved"), (474, "starved")],
            &[(15, "starved"), (117, "starved")],
        ),
    ),
    (
        "a queue's takers and putters are woken each by the other",
        (&[(132, "pool_room")], &[(132, "pool_room")]),
    ),
    (
        "what keeps the GIL is sampled although no request is open",
        (
            &[(550, "gil_publisher"), (1033, "gil_publisher"), (757, "gil_asleep")],
            &[(550, "gil_publisher")],
        ),
    ),
    (
        "a quota that is used up in each period keeps a request from being taken up",
        (&[(647, "throttled"), (716, "throttled")], &[]),
    ),
    (
        "a line of requests waits for what the thread did that the first one joined",
        (
            &[(1098, "workers_kept"), (1374, "workers_kept"), (3927, "workers_kept")],
            &[(1098, "workers_kept"), (1374, "workers_kept")],
        ),
    ),
];

/// The same, of seeds whose first finding was right, but not one beside it.
const FIXED_BESIDE: &[(&str, Seeds)] = &[
    (
        "a thread that asks in slices gets its notice when its last one happens to run out",
        (&[(52, "slices_event"), (577, "slices_event"), (877, "slices_event")], &[]),
    ),
    ("short runs between syncs move data", (&[(19, "disk_sync"), (94, "disk_sync")], &[])),
    (
        "the work that keeps a loop waits for the GIL of a thread without a CPU",
        (
            &[(290, "loop_starved"), (590, "loop_starved")],
            &[(290, "loop_starved"), (590, "loop_starved")],
        ),
    ),
    (
        "of waiters in slices the one that is woken first shows which thread woke them",
        (&[(728, "slices_queue")], &[]),
    ),
];

/// Judges each of them.
fn for_each(fixed: &[(&str, Seeds)], check: impl Fn(&Outcome, &str)) {
    for (what, (on, off)) in fixed {
        let both = on.iter().map(|seed| (*seed, true)).chain(off.iter().map(|seed| (*seed, false)));
        for ((seed, defect), switches) in both {
            let program = draw::of_defect(seed, draw::named(defect).unwrap(), true);
            let said = verdict(&program, switches, program.slow_ns).unwrap();
            let outcome = judge(&program, &said);
            let shown =
                format!("{what}: seed {seed} with {defect}, switch records {switches}: {said:#?}");
            assert!(outcome.valid && outcome.is_right(), "{shown}");
            check(&outcome, &shown);
        }
    }
}

#[test]
fn no_finding_beside_the_first_is_wrong_now() {
    for_each(FIXED_BESIDE, |outcome, shown| {
        assert!(outcome.sure.iter().all(|(_, _, right)| *right), "{shown}");
    });
}

#[test]
fn each_has_the_right_cause_place_and_culprit_now() {
    for_each(FIXED, |outcome, shown| {
        let sure = outcome.sure.iter().filter(|(level, _, _)| *level == "confirmed");
        assert!(sure.clone().all(|(_, _, right)| *right), "{shown}");
    });
}
