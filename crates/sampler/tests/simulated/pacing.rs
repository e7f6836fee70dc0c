//! How often passes are made.

use crate::world::{passes, Costs, World, MS, SECOND, START_NS};

const CHEAP: Costs = Costs { pass: 10_000, sample: 5_000, list: 10_000 };

#[test]
fn a_service_that_works_has_a_hundred_passes_a_second_and_an_idle_one_twenty() {
    for exact in [true, false] {
        let world = World::new(8, exact, CHEAP);
        let mut sampler = world.sampler();
        let busy = |world: &World| world.runs(2, 2 * MS);
        let (periods, naps) = passes(&world, &mut sampler, START_NS + 10 * SECOND, busy);
        assert!((990..=1002).contains(&periods) && naps <= 1, "{exact}: {periods}, {naps}");
        let (periods, naps) = passes(&world, &mut sampler, START_NS + 20 * SECOND, |_| ());
        assert!((195..=200).contains(&naps) && periods < 8, "{exact}: {periods}, {naps}");
    }
}

#[test]
fn a_process_without_requests_for_a_minute_has_four_passes_a_second_though_a_thread_ticks() {
    for exact in [true, false] {
        let world = World::new(8, exact, CHEAP);
        let mut sampler = world.sampler();
        let ticks = |world: &World| world.runs(2, MS / 10);
        passes(&world, &mut sampler, START_NS + 61 * SECOND, ticks);
        let (periods, naps) = passes(&world, &mut sampler, START_NS + 71 * SECOND, ticks);
        assert!((38..=40).contains(&naps) && periods == 0, "{exact}: {periods}, {naps}");
        world.request(2, 0);
        world.all_requests_end();
        let (periods, _) = passes(&world, &mut sampler, START_NS + 72 * SECOND, ticks);
        assert!(periods > 10, "{exact}: {periods}: a request began");
    }
}

#[test]
fn an_open_request_keeps_the_sampler_awake_and_its_end_lets_it_nap() {
    let world = World::new(8, true, CHEAP);
    let mut sampler = world.sampler();
    world.request(2, 0);
    let (_, naps) = passes(&world, &mut sampler, START_NS + SECOND, |_| ());
    assert_eq!(naps, 0);
    world.all_requests_end();
    let (periods, naps) = passes(&world, &mut sampler, START_NS + 2 * SECOND, |_| ());
    assert!(naps > 15 && periods < 8, "{periods}, {naps}");
}

#[test]
fn rings_that_fill_soon_keep_it_awake() {
    let world = World::new(8, true, CHEAP);
    let mut sampler = world.sampler();
    world.rings_are_filled(0.4);
    let (_, naps) = passes(&world, &mut sampler, START_NS + SECOND, |_| ());
    assert_eq!(naps, 0, "at that pace they are half full within a nap");
}

#[test]
fn a_thread_that_is_born_is_sampled_within_two_tenths_of_a_second() {
    for exact in [true, false] {
        let world = World::new(8, exact, CHEAP);
        let mut sampler = world.sampler();
        let busy = |world: &World| world.runs(2, MS);
        passes(&world, &mut sampler, START_NS + SECOND, busy);
        world.take_records();
        world.waits_in(99, 4096);
        world.runs(99, MS);
        passes(&world, &mut sampler, START_NS + SECOND + 200 * MS, busy);
        let samples = World::samples(&world.take_records());
        assert!(samples.iter().any(|sample| sample.tid == 99), "{exact}");
        world.ends(99);
        passes(&world, &mut sampler, START_NS + 3 * SECOND, busy);
        world.take_records();
        passes(&world, &mut sampler, START_NS + 4 * SECOND, busy);
        let samples = World::samples(&world.take_records());
        assert!(samples.iter().all(|sample| sample.tid != 99), "{exact}: it has ended");
    }
}
