//! On simulated services, too, rules and inferences may be asked in any order.

use capture::read::Capture;
use diagnosis::{diagnose, diagnose_in_order, Order};
use report::to_text;
use sim::engine::World;
use sim::program::defects::DEFECTS;
use sim::program::draw;

#[test]
fn defects_have_the_same_verdict_in_several_orders() {
    let mut findings = 0;
    for seed in (0..DEFECTS.len() as u64).step_by(4) {
        let program = draw::program(seed, true);
        let mut world = World::new(&program, seed % 8 == 0);
        world.run();
        let capture = Capture::parse(&world.capture().unwrap()).unwrap();
        let limit = |_: &str| program.slow_ns;
        let listed = diagnose(&capture, limit);
        findings += listed.findings.len();
        for order in [Order::Reversed, Order::Shuffled(seed as usize)] {
            let other = to_text(&diagnose_in_order(&capture, limit, order));
            assert_eq!(to_text(&listed), other, "seed {seed}, {order:?}");
        }
    }
    assert!(findings > DEFECTS.len() / 8, "{findings} findings");
}
