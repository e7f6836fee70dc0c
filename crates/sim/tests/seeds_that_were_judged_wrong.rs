//! Seeds whose verdict was wrong once, each with what was fixed: they remain right, and nothing
//! about them is *confirmed* and wrong.

use sim::judge::case::{judge, verdict};
use sim::program::draw;

/// Seeds with switch records, and without.
type Seeds = (&'static [u64], &'static [u64]);

/// What each list has in common.
const MENDED: &[(&str, Seeds)] = &[
    ("the GIL's holder is the thread that held it for most of the wait", (&[3, 309, 462], &[])),
    ("whose holder had no CPU for most of a wait for the GIL", (&[15, 117, 474], &[15, 117])),
    ("a queue's takers and putters are woken each by the other", (&[132], &[132])),
];

#[test]
fn each_has_the_right_cause_place_and_culprit_now() {
    for (what, (on, off)) in MENDED {
        let both = on.iter().map(|seed| (*seed, true)).chain(off.iter().map(|seed| (*seed, false)));
        for (seed, switches) in both {
            let program = draw::program(seed, true);
            let said = verdict(&program, switches, program.slow_ns).unwrap();
            let outcome = judge(&program, &said);
            let shown = format!("{what}: seed {seed}, switch records {switches}: {said:#?}");
            assert!(outcome.valid && outcome.is_right(), "{shown}");
            let sure = outcome.sure.iter().filter(|(level, _, _)| *level == "confirmed");
            assert!(sure.clone().all(|(_, _, right)| *right), "{shown}");
        }
    }
}
