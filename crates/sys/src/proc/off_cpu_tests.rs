//! Every order of a small scheduler's events and the reader's steps: none has a wrong proof, and
//! each part of the proof is needed.
//!
//! How it works: a thread is blocked, waits for a CPU, or runs; CPU 0 is the reader's. Up to
//! `EVENTS` events happen between the reader's steps, in all ways in which they can.

use super::*;
use std::cell::RefCell;

/// What happens beside the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// It gets the other CPU.
    Arrives,
    /// It runs, and changes its memory.
    Runs,
    /// It loses its CPU.
    IsPreempted,
    /// It gives it up.
    Blocks,
    Wakes,
    /// It waits for the reader's CPU instead of the other one, or the reverse.
    IsMoved,
    /// The reader loses its CPU to it, and gets it back.
    HasATurn,
}

const ALL: [Event; 7] = [
    Event::Arrives,
    Event::Runs,
    Event::IsPreempted,
    Event::Blocks,
    Event::Wakes,
    Event::IsMoved,
    Event::HasATurn,
];
const EVENTS: usize = 4;
/// A count of switches is two words; the read is of two words of memory.
const STEPS: usize = 7;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Blocked,
    Waits,
    Runs,
}

#[derive(Clone, Copy)]
struct World {
    state: State,
    cpu: usize,
    switches: Switches,
    memory: u32,
}

impl World {
    /// None: this cannot happen now.
    fn after(mut self, event: Event) -> Option<World> {
        let (from, to) = match event {
            Event::Arrives if self.cpu == 1 => (State::Waits, State::Runs),
            Event::Runs => (State::Runs, State::Runs),
            Event::IsPreempted => (State::Runs, State::Waits),
            Event::Blocks => (State::Runs, State::Blocked),
            Event::Wakes => (State::Blocked, State::Waits),
            Event::IsMoved | Event::HasATurn => (State::Waits, State::Waits),
            Event::Arrives => return None,
        };
        if self.state != from || (event == Event::HasATurn && self.cpu != 0) {
            return None;
        }
        self.state = to;
        match event {
            Event::IsMoved => self.cpu = 1 - self.cpu,
            Event::Blocks => self.switches.voluntary += 1,
            Event::IsPreempted | Event::HasATurn => self.switches.forced += 1,
            _ => {}
        }
        self.memory += u32::from(matches!(event, Event::Runs | Event::HasATurn));
        Some(self)
    }
}

/// One order of events, each before a step of the reader.
struct Run<'s> {
    world: RefCell<(World, usize)>,
    schedule: &'s Schedule,
}

impl Run<'_> {
    /// The world at the reader's next step.
    fn step(&self) -> World {
        let (world, step) = &mut *self.world.borrow_mut();
        for (_, event) in self.schedule.iter().filter(|(at, _)| at == step) {
            // Schedules are made so that each event can happen.
            *world = world.after(*event).unwrap_or(*world);
        }
        *step += 1;
        *world
    }
}

impl Shown for &Run<'_> {
    fn switches(&mut self) -> Option<Switches> {
        let voluntary = self.step().switches.voluntary;
        Some(Switches { voluntary, forced: self.step().switches.forced })
    }

    fn is_off_cpu(&mut self) -> bool {
        let world = self.step();
        world.state == State::Blocked || world.cpu == 0
    }
}

/// Whether the two words that were read are of one instant, and what the proof says.
type Answer = (bool, Proof);

fn as_it_is(run: &Run) -> Answer {
    let mut shown = run;
    proven(&mut shown, || run.step().memory == run.step().memory)
}

/// Events, each before a step of the reader.
type Schedule = [(usize, Event)];

/// Calls `visit` with every schedule that continues this one.
fn each(world: World, schedule: &mut Vec<(usize, Event)>, visit: &mut dyn FnMut(&Schedule)) {
    visit(schedule);
    if schedule.len() == EVENTS {
        return;
    }
    let first = schedule.last().map_or(0, |(at, _)| *at);
    for event in ALL {
        let Some(next) = world.after(event) else { continue };
        for at in first..STEPS {
            schedule.push((at, event));
            each(next, schedule, visit);
            schedule.pop();
        }
    }
}

/// How many orders have a proof, and the first one whose proof is wrong.
fn judged(reader: impl Fn(&Run) -> Answer) -> (usize, Option<String>) {
    let (mut held, mut wrong) = (0, None);
    let begins = [(State::Blocked, 1), (State::Waits, 0), (State::Waits, 1), (State::Runs, 1)];
    for (state, cpu) in begins {
        let world = World { state, cpu, switches: Switches::default(), memory: 0 };
        each(world, &mut Vec::new(), &mut |schedule| {
            let run = Run { world: RefCell::new((world, 0)), schedule };
            let (one_instant, proof) = reader(&run);
            held += usize::from(proof == Proof::Held);
            if proof == Proof::Held && !one_instant && wrong.is_none() {
                wrong = Some(format!("{state:?} on {cpu}: {schedule:?}"));
            }
        });
    }
    (held, wrong)
}

#[test]
fn no_order_of_events_has_a_wrong_proof() {
    let (held, wrong) = judged(as_it_is);
    assert_eq!(wrong, None);
    assert!(held > 1000, "{held}");
}

#[test]
fn each_part_of_the_proof_is_needed() {
    let words = |run: &Run| run.step().memory == run.step().memory;
    let proof = |held| if held { Proof::Held } else { Proof::Ran };
    let without_off_cpu = |mut run: &Run| {
        let (before, same) = (run.switches(), words(run));
        (same, proof(before == run.switches()))
    };
    let without_switches = |mut run: &Run| {
        let before = run.is_off_cpu();
        let same = words(run);
        (same, proof(before && run.is_off_cpu()))
    };
    let counted_late = |mut run: &Run| {
        let (same, before) = (words(run), run.switches());
        (same, proof(run.is_off_cpu() && before == run.switches()))
    };
    let counted_before_it_is_off = |mut run: &Run| {
        let (before, same) = (run.switches(), words(run));
        let after = run.switches();
        (same, proof(run.is_off_cpu() && before == after))
    };
    assert!(judged(without_off_cpu).1.is_some());
    assert!(judged(without_switches).1.is_some());
    assert!(judged(counted_late).1.is_some());
    assert!(judged(counted_before_it_is_off).1.is_some());
}
