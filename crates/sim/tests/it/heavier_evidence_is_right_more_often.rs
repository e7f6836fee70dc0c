//! Where two inferences name different threads as the blocker of a wait, the one that the table of
//! evidence gives more weight is right more often.

use sim::judge::calibrate::Calibration;
use sim::program::defects::DEFECTS;

/// Fewer disagreements say nothing.
const LEAST: u64 = 3;

#[test]
fn the_order_of_weights_is_the_order_of_being_right() {
    let (mut compared, mut wrong) = (0, Vec::new());
    let count = DEFECTS.len() as u64;
    for switches in [true, false] {
        let seeds = (0..count).filter(|seed| (seed % 2 == 0) == switches);
        let found = Calibration::of(seeds, switches).unwrap();
        let known = found.chosen.values().map(|named| named.questions()).sum::<u64>();
        assert!(known > 30, "only {known} intervals had a blocker");
        for ((heavier, lighter), pair) in found.against {
            if pair.heavier + pair.lighter < LEAST {
                continue;
            }
            compared += 1;
            if pair.heavier < pair.lighter {
                wrong.push(format!("{} against {}: {pair:?}", heavier.id(), lighter.id()));
            }
        }
    }
    assert!(compared >= 1, "only {compared} pairs of inferences disagreed often");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
