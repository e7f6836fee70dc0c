//! The simulator itself: what it promises about bytes, captures and the truth.

use sim::engine::{Request, World};
use sim::judge::truth::Truth;
use sim::program::defects::DEFECTS;
use sim::program::draw;

/// One seed of each defect.
fn seeds() -> std::ops::Range<u64> {
    0..DEFECTS.len() as u64
}

fn capture_of(seed: u64, switches: bool) -> std::io::Result<Vec<u8>> {
    let program = draw::program(seed, true);
    let mut world = World::new(&program, switches);
    world.run();
    world.capture()
}

#[test]
fn the_same_seed_makes_the_same_bytes_and_another_one_others() {
    for seed in seeds().step_by(5) {
        for switches in [true, false] {
            let [one, other] = [(); 2].map(|()| capture_of(seed, switches).unwrap());
            assert_eq!(one, other, "seed {seed}");
        }
    }
    let defects = DEFECTS.len() as u64;
    assert_ne!(capture_of(1, true).unwrap(), capture_of(1 + defects, true).unwrap());
}

#[test]
fn the_slices_of_a_critical_path_follow_each_other_and_sum_to_the_request() {
    let mut paths = 0;
    for seed in seeds() {
        let program = draw::program(seed, true);
        let mut world = World::new(&program, true);
        world.run();
        let truth = Truth::of(&world);
        for request in world.requests().iter().filter(|r| r.end_ns.is_some()) {
            let path = truth.path(request);
            let mut at = request.begin_ns;
            for slice in &path {
                assert_eq!(slice.from, at, "seed {seed}, request {}: {path:?}", request.id);
                assert!(slice.to > slice.from, "seed {seed}, request {}", request.id);
                at = slice.to;
            }
            assert_eq!(Some(at), request.end_ns, "seed {seed}, request {}", request.id);
            paths += 1;
        }
    }
    assert!(paths > 1000, "{paths}");
}

#[test]
fn the_reader_finds_no_damage_and_every_request_that_was_taken_up() {
    for seed in seeds() {
        let program = draw::program(seed, true);
        let mut world = World::new(&program, true);
        world.run();
        let capture = capture::read::Capture::parse(&world.capture().unwrap()).unwrap();
        assert_eq!(capture.damage, Vec::<String>::new(), "seed {seed}");
        let begun = world.requests().iter().filter(|r| r.started_ns > 0).count();
        match program.loss_percent {
            0 => assert_eq!(capture.requests.len(), begun, "seed {seed}"),
            _ => assert!(capture.requests.len() <= begun, "seed {seed}"),
        }
        let missing: u64 = capture.coverage.iter().map(|c| c.missing_between).sum();
        assert!(missing == 0 || program.loss_percent > 0, "seed {seed}: {missing} are missing");
    }
}

#[test]
fn without_switch_records_there_are_none_and_samples_stay() {
    for seed in seeds().step_by(7) {
        let off = capture::read::Capture::parse(&capture_of(seed, false).unwrap()).unwrap();
        assert!(off.off_cpu.is_empty(), "seed {seed}");
        assert!(!off.samples.is_empty(), "seed {seed}");
        let on = capture::read::Capture::parse(&capture_of(seed, true).unwrap()).unwrap();
        assert!(!on.off_cpu.is_empty(), "seed {seed}");
        assert!(on.wakes.is_empty(), "seed {seed}: wakers take root");
    }
}

#[test]
fn what_few_slow_requests_waited_for_is_true_of_them_however_little_the_others_did() {
    // Most of the slow ones wait in vain for a notice; a few get theirs late. The mean of all of
    // them has less of the late notice than normal requests have.
    let program = draw::of_defect(331, draw::named("notice_stopped").unwrap(), true);
    let mut world = World::new(&program, true);
    world.run();
    let truth = Truth::of(&world);
    let slow = |r: &&Request| r.end_ns.is_some_and(|end| end - r.begin_ns >= program.slow_ns);
    let noticed =
        |r: &&Request| truth.sums(r).get("lock-wait").is_some_and(|ns| *ns >= program.slow_ns);
    let (few, all) = (
        world.requests().iter().filter(slow).filter(noticed).count(),
        world.requests().iter().filter(slow).count(),
    );
    assert!(few > 0 && few * 4 < all, "{few} of {all}");
    let parts = truth.excess(program.slow_ns);
    assert!(parts["lock-wait"] * 2.0 > few as f64 / all as f64, "{few} of {all}: {parts:?}");
    let sum: f64 = parts.values().sum();
    assert!((sum - 1.0).abs() < 1e-9, "{parts:?}");
}

#[test]
fn no_counter_of_a_threads_time_goes_back() {
    for (seed, name) in [(94, "disk_sync"), (19, "disk_sync"), (36, "fault_fresh")] {
        let program = draw::of_defect(seed, draw::named(name).unwrap(), true);
        let mut world = World::new(&program, true);
        world.run();
        let capture = capture::read::Capture::parse(&world.capture().unwrap()).unwrap();
        for (tid, samples) in &capture.samples {
            let readings: Vec<_> = samples.iter().filter_map(|s| s.usage()).collect();
            for two in readings.windows(2) {
                let forward =
                    two[0].user_us <= two[1].user_us && two[0].system_us <= two[1].system_us;
                assert!(forward, "{name} {seed}, thread {tid}: {two:?}");
            }
        }
    }
}

#[test]
fn a_read_write_lock_has_many_readers_or_one_writer() {
    for name in ["shared_reader", "shared_writer"] {
        let program = draw::of_defect(69, draw::named(name).unwrap(), true);
        let mut world = World::new(&program, true);
        world.run();
        let truth = Truth::of(&world).excess(program.slow_ns);
        assert!(truth["lock-wait"] > 0.9, "{name}: {truth:?}");
    }
}
