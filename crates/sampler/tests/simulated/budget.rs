//! The CPU budget holds, whatever a pass costs and however many requests are slow.

use testkit::Random;

use crate::world::{passes, Costs, World, MS, SECOND, START_NS};

/// 40 threads of which some run each time, for a minute; `slow`: one request is slow all the time.
/// The part of a core that was spent, and what was written.
fn minute(seed: u64, exact: bool, slow: bool, sample: u64) -> (f64, Vec<Vec<u64>>) {
    let costs = Costs { pass: 30_000, sample, list: 50_000 };
    let world = World::new(40, exact, costs);
    let mut sampler = world.sampler();
    let mut random = Random::new(seed);
    if slow {
        world.request(2, 0);
    }
    let began_ns = world.spent_ns();
    passes(&world, &mut sampler, START_NS + 60 * SECOND, |world| {
        (0..8).for_each(|_| world.runs(2 + random.below(40) as u32, 200_000));
    });
    let spent_ns = world.spent_ns() - began_ns;
    (spent_ns as f64 / (world.now() - START_NS) as f64, world.take_records())
}

#[test]
fn a_minute_spends_its_budget_and_what_was_saved_before_at_most() {
    for exact in [true, false] {
        for slow in [true, false] {
            for sample in [5_000, 50_000, 500_000, 5_000_000] {
                let (spent, records) = minute(7, exact, slow, sample);
                // The bucket holds 150 ms at the start. The last pass may cost up to 24: two
                // allotments of 4 ms and one of 1, each with a last sample of 5.
                assert!(spent < 0.0104 + 0.174 / 60.0, "{exact} {slow} {sample}: {spent}");
                assert!(!World::samples(&records).is_empty(), "{exact} {slow} {sample}");
            }
        }
    }
}

#[test]
fn a_slow_requests_thread_is_sampled_to_the_end_however_expensive_that_is() {
    for exact in [true, false] {
        let (_, records) = minute(7, exact, true, 500_000);
        let of_thread = |from_s: u64| {
            let late = |t_ns: u64| t_ns >= START_NS + from_s * SECOND;
            let samples = World::samples(&records);
            samples.iter().filter(|sample| sample.tid == 2 && late(sample.t_ns)).count()
        };
        // 100 ms of CPU come in in ten seconds, at 1 %.
        assert!(of_thread(50) >= 20, "{exact}: {} of {}", of_thread(50), of_thread(0));
    }
}

#[test]
fn no_pass_samples_more_threads_than_the_settings_say() {
    let world = World::new(200, true, Costs { pass: 0, sample: 100, list: 0 });
    let mut sampler = world.sampler();
    (2..60).for_each(|tid| world.request(tid, 50 * MS));
    let mut most = 0;
    passes(&world, &mut sampler, START_NS + 2 * SECOND, |world| {
        most = most.max(World::samples(&world.take_records()).len());
        (2..202).for_each(|tid| world.runs(tid, 1_000));
    });
    assert_eq!(most, 16);
}

#[test]
fn the_same_seed_gives_the_same_records() {
    for exact in [true, false] {
        let of = |seed| minute(seed, exact, true, 50_000).1;
        assert!(of(3) == of(3), "word by word");
        assert!(of(3) != of(4));
    }
}
