//! Each word of a verdict that can be checked has its ground in the data, on simulated services.

use capture::read::Capture;
use golden::words::contradictions;
use sim::engine::World;
use sim::program::defects::DEFECTS;
use sim::program::draw;

#[test]
fn no_sentence_contradicts_its_finding() {
    let (mut findings, mut wrong) = (0, Vec::new());
    for seed in 0..DEFECTS.len() as u64 {
        let program = draw::program(seed, true);
        let mut world = World::new(&program, seed % 2 == 0);
        world.run();
        let capture = Capture::parse(&world.capture().unwrap()).unwrap();
        let verdict = diagnosis::diagnose(&capture, |_| program.slow_ns);
        findings += verdict.findings.len();
        let found = contradictions(&verdict);
        wrong.extend(found.into_iter().map(|what| format!("seed {seed}: {what}")));
    }
    assert!(findings > DEFECTS.len() / 2, "only {findings} findings were there to check");
    assert!(wrong.is_empty(), "{} of {findings} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
