//! What keeps a process from taking up requests is sampled while it lasts.

use crate::world::{passes, Costs, World, MS, SECOND, START_NS};

/// As on a busy machine: the half of the budget pays for one sample in 30 ms.
const EXPENSIVE: Costs = Costs { pass: 130_000, sample: 20_000, list: 10_000 };

/// How often thread 2, which computes all the time, is sampled in 400 ms; `takes_up`: a request
/// begins and ends between two passes meanwhile.
fn seen(exact: bool, takes_up: bool) -> usize {
    let world = World::new(8, exact, EXPENSIVE);
    let mut sampler = world.sampler();
    let usual = |world: &World| {
        world.request(3, 0);
        world.all_requests_end();
        world.runs(3, MS);
    };
    passes(&world, &mut sampler, START_NS + 3 * SECOND, usual);
    world.take_records();
    let mut since_ns = world.now();
    passes(&world, &mut sampler, START_NS + 3 * SECOND + 400 * MS, |world| {
        let until_ns = world.now();
        world.runs(2, until_ns - std::mem::replace(&mut since_ns, until_ns));
        if takes_up {
            usual(world);
        }
    });
    let samples = World::samples(&world.take_records());
    samples.iter().filter(|sample| sample.tid == 2).count()
}

#[test]
fn a_thread_that_computes_while_no_request_begins_is_sampled_in_each_period() {
    for exact in [true, false] {
        assert!(seen(exact, false) >= 35, "{exact}: {} in 400 ms", seen(exact, false));
    }
}

#[test]
fn while_requests_begin_it_is_sampled_no_more_often_than_half_of_the_budget_pays_for() {
    for exact in [true, false] {
        assert!(seen(exact, true) <= 14, "{exact}: {} in 400 ms", seen(exact, true));
    }
}
