//! Times in which the sampler had no CPU, and in which the kernel had no room for records.

use format::record::{decode, Record};

use crate::world::{passes, Costs, World, MS, SECOND, START_NS};

const CHEAP: Costs = Costs { pass: 10_000, sample: 5_000, list: 10_000 };

#[test]
fn a_sampler_without_a_cpu_says_for_how_long_and_why_twice() {
    let world = World::new(4, true, CHEAP);
    let mut sampler = world.sampler();
    let busy = |world: &World| world.runs(2, MS);
    passes(&world, &mut sampler, START_NS + SECOND, busy);
    world.take_records();
    let mut kept = false;
    passes(&world, &mut sampler, world.now() + 500 * MS, |world| {
        world.runs(2, MS);
        if !std::mem::replace(&mut kept, true) {
            // Planned for now, it begins 300 ms later, of which it was runnable all the time.
            world.delay_sampler(300 * MS);
        }
    });
    let records = world.take_records();
    let gaps = world.vitals(&records, "recorder_gap_ns");
    assert_eq!(gaps.iter().map(|(_, ns)| *ns).collect::<Vec<_>>(), [3e8, 3e8]);
    let delays = world.vitals(&records, "recorder_gap_run_delay_ns");
    assert_eq!(delays.iter().map(|(_, ns)| *ns).collect::<Vec<_>>(), [3e8, 3e8]);
}

#[test]
fn a_pass_that_is_a_little_late_is_no_gap() {
    let world = World::new(4, true, CHEAP);
    let mut sampler = world.sampler();
    passes(&world, &mut sampler, START_NS + SECOND, |world| {
        world.runs(2, MS);
        world.delay_sampler(30 * MS);
    });
    let records = world.take_records();
    assert_eq!(world.vitals(&records, "recorder_gap_ns"), []);
}

#[test]
fn no_time_off_the_cpu_reaches_over_a_loss_of_switch_records() {
    let world = World::new(4, true, CHEAP);
    let mut sampler = world.sampler();
    let (mut lost, mut step) = ((0, 0), 0);
    passes(&world, &mut sampler, START_NS + SECOND, |world| {
        step += 1;
        world.runs(3, MS);
        if step == 50 {
            lost = (world.now(), world.now() + 5 * MS);
            world.advance(6 * MS);
            world.loses(lost.0, lost.1);
        }
    });
    let records = world.take_records();
    let paused = world.vitals(&records, format::record::SWITCHES_PAUSED);
    assert_eq!(paused.last(), Some(&(lost.1, 0.0)), "it is over");
    assert_eq!(paused.first(), Some(&(lost.1 - 1, (5 * MS - 1) as f64)));
    let off = |words: &Vec<u64>| match decode(words) {
        Some((_, Record::OffCpu { tid: 3, out_ns, in_ns, .. })) => Some((out_ns, in_ns)),
        _ => None,
    };
    let offs: Vec<(u64, u64)> = records.iter().filter_map(off).collect();
    assert!(offs.len() > 80, "{}", offs.len());
    let over = |(out_ns, in_ns): &&(u64, u64)| *out_ns < lost.0 && *in_ns > lost.1;
    assert_eq!(offs.iter().find(over), None);
}
