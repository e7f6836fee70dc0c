//! Which words of a stack are return addresses.
//!
//! How it works: the host recorded every word that points behind a call, callers and leftovers of
//! earlier calls alike. From the innermost frame on, the unwind tables say at which word its return
//! address lies: exactly that one is taken. Where they say it by a register that is not known (a
//! frame pointer), the next word is taken whose call leads to this function, else the next whose
//! call may lead anywhere.

use crate::module::Step;

/// A word of the stack that may be a return address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Which binary; None: none that is known.
    pub module: Option<usize>,
    /// Bytes from the begin of its file.
    pub offset: u64,
    /// Words above the stack pointer; -1 for the instruction pointer.
    pub position: i64,
}

/// What the binaries know.
pub trait Code {
    /// How to get from the frame at `at` to its caller. `called`: it stands behind a call.
    fn step(&mut self, at: Candidate, called: bool) -> Step;
    /// Whether the call in front of `caller` can have led to the function that `at` runs in.
    fn leads(&mut self, caller: Candidate, at: Candidate, called: bool) -> Leads;
}

/// Where a call goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Leads {
    /// To another function.
    Elsewhere,
    /// It cannot be told: through a pointer or into another binary.
    Perhaps,
    /// Here.
    Here,
}

/// Indices of the frames among `stack` (innermost first), the first of which is always one.
pub fn frames(stack: &[Candidate], code: &mut impl Code) -> Vec<usize> {
    let mut found = Vec::new();
    let mut sp = 0i64;
    let mut next = (!stack.is_empty()).then_some(0);
    while let Some(index) = next {
        let (at, called) = (stack[index], index > 0);
        found.push(index);
        if called {
            sp = at.position + 1;
        }
        let outer = index + 1..stack.len();
        next = match code.step(at, called) {
            Step::Outermost => None,
            Step::Return(words) => {
                let place = sp.saturating_add(words);
                outer.clone().find(|i| stack[*i].position == place)
            }
            Step::Unknown => {
                let mut best: Option<(Leads, usize)> = None;
                for i in outer.filter(|i| stack[*i].position >= sp) {
                    let leads = code.leads(stack[i], at, called);
                    if best.is_none_or(|(known, _)| leads > known) {
                        best = Some((leads, i));
                    }
                    if leads == Leads::Here {
                        break;
                    }
                }
                best.filter(|(leads, _)| *leads > Leads::Elsewhere).map(|(_, i)| i)
            }
        };
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Functions by offset / 100; a rule and the function that the call at each offset leads to.
    struct Known(Vec<(u64, Step, Option<u64>)>);

    impl Code for Known {
        fn step(&mut self, at: Candidate, _: bool) -> Step {
            self.0.iter().find(|k| k.0 == at.offset).map_or(Step::Unknown, |k| k.1)
        }

        fn leads(&mut self, caller: Candidate, at: Candidate, _: bool) -> Leads {
            match self.0.iter().find(|k| k.0 == caller.offset).and_then(|k| k.2) {
                Some(target) if target == at.offset / 100 => Leads::Here,
                Some(_) => Leads::Elsewhere,
                None => Leads::Perhaps,
            }
        }
    }

    fn stack(words: &[(u64, i64)]) -> Vec<Candidate> {
        let candidate = |(offset, position): &(u64, i64)| Candidate {
            module: Some(0),
            offset: *offset,
            position: *position,
        };
        words.iter().map(candidate).collect()
    }

    #[test]
    fn the_unwind_rule_passes_over_leftovers() {
        let words = stack(&[(110, -1), (910, 0), (210, 3), (920, 4), (310, 9), (930, 10)]);
        let mut code = Known(vec![
            (110, Step::Return(3), None),
            (210, Step::Return(5), None),
            (310, Step::Outermost, None),
        ]);
        assert_eq!(frames(&words, &mut code), [0, 2, 4]);
    }

    #[test]
    fn with_a_frame_pointer_the_call_that_leads_here_is_the_caller() {
        let words = stack(&[(110, -1), (910, 0), (920, 2), (210, 3), (310, 9)]);
        let mut code = Known(vec![
            (910, Step::Unknown, Some(7)),
            (210, Step::Unknown, Some(1)),
            (310, Step::Outermost, Some(2)),
        ]);
        assert_eq!(frames(&words, &mut code), [0, 3, 4]);
    }

    #[test]
    fn a_stack_that_does_not_fit_its_rules_ends_and_does_not_loop() {
        let words = stack(&[(110, -1), (210, 5), (210, 5), (310, -7)]);
        let mut code = Known(vec![
            (110, Step::Return(5), None),
            (210, Step::Return(i64::MAX), None),
            (310, Step::Return(0), None),
        ]);
        assert_eq!(frames(&words, &mut code), [0, 1]);
        assert!(frames(&[], &mut code).is_empty());
    }
}
