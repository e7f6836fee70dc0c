//! Switch records are paused while threads come and go by the thousand, and while the program needs
//! its descriptors.

use format::region::losses;

use crate::world::{passes, Costs, World, MS, SECOND, START_NS};

const CHEAP: Costs = Costs { pass: 10_000, sample: 5_000, list: 10_000 };

/// So many births a pass, each thread ending before the next pass.
fn births(world: &World, first: &mut u32, count: u32) {
    (*first..*first + count).for_each(|tid| world.ends(tid));
    *first += count;
    (*first..*first + count).for_each(|tid| {
        world.waits_in(tid, 8);
        world.runs(tid, 10_000);
    });
}

#[test]
fn a_burst_pauses_the_records_and_its_end_brings_them_back() {
    let world = World::new(4, true, CHEAP);
    let mut sampler = world.sampler();
    let mut first = 1000;
    assert_eq!(world.source("switches"), "on");
    passes(&world, &mut sampler, START_NS + 500 * MS, |world| births(world, &mut first, 60));
    assert_eq!(world.source("switches"), "on", "half a second is no burst");
    passes(&world, &mut sampler, START_NS + 2 * SECOND, |world| births(world, &mut first, 60));
    let state = world.source("switches");
    assert_eq!(state, "on; paused while more than 1000 threads a second are started");
    assert_eq!(world.lost(losses::SWITCH_PAUSES), 1);
    let records = world.take_records();
    let paused = world.vitals(&records, format::record::SWITCHES_PAUSED);
    assert!(paused.last().is_some_and(|(_, ns)| *ns > 0.0), "{paused:?}");
    // The burst is over.
    passes(&world, &mut sampler, START_NS + 4 * SECOND, |world| world.runs(2, MS));
    assert_eq!(world.source("switches"), "on");
    let records = world.take_records();
    let paused = world.vitals(&records, format::record::SWITCHES_PAUSED);
    assert_eq!(paused.last().map(|(_, ns)| *ns), Some(0.0));
    let ms = world.lost(losses::SWITCHES_PAUSED_MS);
    assert!((1_000..3_000).contains(&ms), "{ms} ms");
}

#[test]
fn some_hundred_births_a_second_pause_nothing() {
    let world = World::new(4, true, CHEAP);
    let mut sampler = world.sampler();
    let mut first = 1000;
    passes(&world, &mut sampler, START_NS + 10 * SECOND, |world| births(world, &mut first, 4));
    assert_eq!((world.source("switches").as_str(), world.lost(losses::SWITCH_PAUSES)), ("on", 0));
}

#[test]
fn a_program_near_its_limit_of_descriptors_has_those_of_the_records() {
    let world = World::new(4, true, CHEAP);
    let mut sampler = world.sampler();
    let busy = |world: &World| world.runs(2, MS);
    passes(&world, &mut sampler, START_NS + SECOND, busy);
    world.is_near_its_limit_of_descriptors(true);
    passes(&world, &mut sampler, START_NS + 2 * SECOND, busy);
    let state = world.source("switches");
    assert_eq!(state, "on; paused while the program is near its limit of descriptors");
    world.is_near_its_limit_of_descriptors(false);
    passes(&world, &mut sampler, START_NS + 3 * SECOND, busy);
    assert_eq!(world.source("switches"), "on");
}
