//! Threads in a slow request's way are sampled in the same pass.

use format::wait::{HolderSource, WaitKind};

use crate::world::{passes, Costs, World, MS, SECOND, START_NS};

const CHEAP: Costs = Costs { pass: 10_000, sample: 5_000, list: 10_000 };

#[test]
fn the_holder_of_a_lock_is_named_and_sampled_right_behind_its_waiter() {
    for exact in [true, false] {
        let world = World::new(50, exact, CHEAP);
        let mut sampler = world.sampler();
        passes(&world, &mut sampler, START_NS + SECOND, |world| world.runs(3, MS));
        world.take_records();
        // Thread 2 serves the request and waits for a lock that 40 has.
        let futex = 64 * 2;
        world.owns(40, futex);
        world.request(2, 50 * MS);
        world.runs(2, 1_000);
        passes(&world, &mut sampler, world.now() + 5 * MS, |_| ());
        let samples = World::samples(&world.take_records());
        let waiter = samples.iter().find(|sample| sample.tid == 2).expect("it is urgent");
        assert_eq!((waiter.wait, waiter.target), (WaitKind::Futex, futex));
        assert_eq!((waiter.lock_holder, waiter.holder_source), (40, HolderSource::OwnerField));
        let at = |tid| samples.iter().position(|sample| sample.tid == tid);
        assert_eq!(at(40), at(2).map(|at| at + 1), "{exact}");
    }
}

#[test]
fn a_waiters_lock_is_asked_about_again_while_it_waits() {
    let world = World::new(50, true, CHEAP);
    let mut sampler = world.sampler();
    world.request(2, 50 * MS);
    let mut step = 0;
    passes(&world, &mut sampler, START_NS + SECOND, |world| {
        step += 1;
        if step == 20 {
            world.owns(41, 64 * 2);
        }
    });
    let samples = World::samples(&world.take_records());
    let holders: Vec<u32> =
        samples.iter().filter(|sample| sample.tid == 2).map(|s| s.lock_holder).collect();
    // Each 40 ms, though it did not run.
    assert!((20..=27).contains(&holders.len()), "{holders:?}");
    assert_eq!((holders.first(), holders.last()), (Some(&0), Some(&41)));
}
