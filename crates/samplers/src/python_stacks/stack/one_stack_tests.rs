//! A function that is called anew while its callees are read: every order of the reader's steps and
//! of a program that calls `a` again and again, which calls `b` and then `c`; `b` calls `c`.

use super::*;
use crate::python_stacks::types::CodeId;

const SPIN: usize = 1;
const A: usize = 2;
const B: usize = 3;
const C: usize = 4;
const NOT_BEGUN: i64 = -2;

/// The words of the stack: how many frames are active, and what is in the place of each, by code
/// and offset. A place keeps its words when its frame has returned.
#[derive(Clone, Copy)]
struct Words {
    active: usize,
    places: [(usize, i64); 4],
}

impl Words {
    fn push(&mut self, code: usize) {
        self.places[self.active] = (code, NOT_BEGUN);
        self.active += 1;
    }
}

/// The words after each step of the program, three times around.
fn history() -> Vec<Words> {
    let mut now = Words { active: 1, places: [(SPIN, 0), (0, 0), (0, 0), (0, 0)] };
    let mut all = vec![now];
    // None: a return.
    let calls = [Some(A), Some(B), Some(C), None, None, Some(C), None, None];
    for call in calls.iter().cycle().take(3 * calls.len()) {
        match call {
            Some(code) => {
                now.push(*code);
                all.push(now);
                now.places[now.active - 1].1 = 0;
            }
            None => now.active -= 1,
        }
        all.push(now);
    }
    all
}

/// What is shown of a walk that reads the number of frames, then each place, outermost first, at
/// these times.
fn shown(history: &[Words], times: [usize; 4], settled: bool) -> Vec<u32> {
    let [first, places @ ..] = times;
    let active = history[first].active;
    let mut frames = vec![RawFrame { address: 0, code: SPIN, offset: 0, owner: 0 }];
    for (place, time) in (1..active).zip(places) {
        let (code, offset) = history[time].places[place];
        frames.push(RawFrame { address: place, code, offset, owner: 0 });
    }
    let row = |raw: &RawFrame| {
        Ok((raw.offset != NOT_BEGUN).then_some(Frame { code: CodeId(raw.code as u32), line: 0 }))
    };
    let (mut at, mut out) = (Vec::new(), Vec::new());
    let cut = rows(frames.iter().rev(), row, (100, settled), &mut at, &mut out);
    assert_eq!(cut, Ok(false));
    out.iter().map(|frame| frame.code.0).collect()
}

/// The stacks in which `spin` is shown as the caller of what it never calls.
fn without_a_frame(settled: bool) -> usize {
    let history = history();
    let all = 0..history.len();
    let mut wrong = 0;
    for first in all.clone() {
        for second in first..all.end {
            for third in second..all.end {
                for fourth in third..all.end {
                    let stack = shown(&history, [first, second, third, fourth], settled);
                    let odd = |pair: &[u32]| pair[1] == SPIN as u32 && pair[0] != A as u32;
                    wrong += usize::from(stack.windows(2).any(odd));
                }
            }
        }
    }
    wrong
}

#[test]
fn a_frame_that_began_anew_is_never_left_out_between_others() {
    assert_eq!(without_a_frame(false), 0);
    assert!(without_a_frame(true) > 0, "the orders include the fault");
}
