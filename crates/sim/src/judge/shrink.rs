//! Making a failing program small.
//!
//! How it works: parts are taken away one at a time: neighbours, threads beside, steps of the
//! handler and of other functions, losses, clients, the second half of the run. What still fails in
//! the same way is kept, and everything is tried again until nothing can go.
//!
//! What it promises: the result fails as the original did: its truth still has the defect, and the
//! verdict's first finding has the same cause, place and culprit, right and wrong alike.

use super::case::{judge, verdict, Outcome};
use crate::program::{Load, Op, Program, Step, SECOND};

/// Runs that shrinking one program may take.
const MOST_RUNS: usize = 400;

/// The smallest program found that fails as this one does, and how many runs it took.
pub fn shrink(program: &Program, switches: bool) -> Result<(Program, usize), String> {
    let mut best = program.clone();
    let mut runs = 1;
    let wanted = outcome(&best, switches)?;
    loop {
        let mut smaller = None;
        for candidate in candidates(&best) {
            if runs >= MOST_RUNS {
                return Ok((best, runs));
            }
            runs += 1;
            let found = outcome(&candidate, switches)?;
            if fails_alike(&wanted, &found) {
                smaller = Some(candidate);
                break;
            }
        }
        match smaller {
            Some(candidate) => best = candidate,
            None => return Ok((best, runs)),
        }
    }
}

fn outcome(program: &Program, switches: bool) -> Result<Outcome, String> {
    Ok(judge(program, &verdict(program, switches, program.slow_ns)?))
}

fn fails_alike(wanted: &Outcome, found: &Outcome) -> bool {
    found.valid
        && (found.cause, found.place, found.culprit) == (wanted.cause, wanted.place, wanted.culprit)
        && (&found.found, &found.named) == (&wanted.found, &wanted.named)
}

/// Programs with one thing less, the largest things first.
fn candidates(program: &Program) -> Vec<Program> {
    let mut out = Vec::new();
    let mut with = |change: &dyn Fn(&mut Program)| {
        let mut made = program.clone();
        change(&mut made);
        if made != *program {
            out.push(made);
        }
    };
    if program.length_ns > 4 * SECOND {
        with(&|made| made.length_ns = (made.length_ns * 2 / 3).max(4 * SECOND));
    }
    with(&|made| made.loss_percent = 0);
    with(&|made| made.host.neighbours.clear());
    for index in 0..program.beside.len() {
        with(&|made| drop(made.beside.remove(index)));
    }
    if let Load::Closed { clients: 3.., think_ns } = program.load {
        with(&|made| {
            made.load = Load::Closed { clients: 2, think_ns };
            made.serving = made.serving.min(2);
        });
    }
    for function in 0..program.functions.len() {
        for step in 0..count(&program.functions[function].body) {
            with(&|made| {
                remove(&mut made.functions[function].body, &mut step.clone());
            });
        }
    }
    out
}

fn inner(op: &Op) -> Option<&Vec<Step>> {
    match op {
        Op::Repeat(_, body)
        | Op::Forever(body)
        | Op::Every { body, .. }
        | Op::With(_, body)
        | Op::AsyncWith(_, body)
        | Op::Inside(_, body)
        | Op::Reading(_, body)
        | Op::Writing(_, body)
        | Op::Transaction(_, body)
        | Op::ByHand(_, _, body) => Some(body),
        _ => None,
    }
}

fn inner_mut(op: &mut Op) -> Option<&mut Vec<Step>> {
    match op {
        Op::Repeat(_, body)
        | Op::Forever(body)
        | Op::Every { body, .. }
        | Op::With(_, body)
        | Op::AsyncWith(_, body)
        | Op::Inside(_, body)
        | Op::Reading(_, body)
        | Op::Writing(_, body)
        | Op::Transaction(_, body)
        | Op::ByHand(_, _, body) => Some(body),
        _ => None,
    }
}

/// Steps, with those inside of others.
fn count(body: &[Step]) -> usize {
    body.iter().map(|step| 1 + inner(&step.op).map_or(0, |body| count(body))).sum()
}

/// Removes the step of this number, counted from the outermost; whether it was there.
fn remove(body: &mut Vec<Step>, number: &mut usize) -> bool {
    for index in 0..body.len() {
        if *number == 0 {
            // A thread that would do nothing for ever is no smaller program.
            if matches!(body[index].op, Op::Forever(_)) {
                return true;
            }
            body.remove(index);
            return true;
        }
        *number -= 1;
        if let Some(inner) = inner_mut(&mut body[index].op) {
            if remove(inner, number) {
                return true;
            }
        }
    }
    false
}
