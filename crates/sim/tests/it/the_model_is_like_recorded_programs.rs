//! Programs of the zoo as recorded, beside the same things simulated, in both kernel modes.

use std::path::Path;

use sim::judge::compare::{pairs, ROWS};

#[test]
fn verdicts_on_recorded_and_simulated_programs_agree() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/captures");
    let pairs = pairs(&folder).unwrap();
    assert!(ROWS.len() >= 30 && pairs.len() == 2 * ROWS.len());
    let other: Vec<String> = pairs
        .iter()
        .filter(|pair| pair.real.cause != pair.simulated.cause)
        .map(|pair| {
            let (real, simulated) = (&pair.real.cause, &pair.simulated.cause);
            format!("{} {}: {real}, simulated {simulated}", pair.row.capture, pair.mode)
        })
        .collect();
    assert!(other.is_empty(), "{}", other.join("\n"));
}
