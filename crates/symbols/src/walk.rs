//! Finds the return addresses among the words of a stack.
//!
//! How it works: the host recorded every word that points behind a call, both callers and leftovers
//! of earlier calls, and words that may be saved frame pointers. From the innermost frame outwards,
//! the unwind tables give the word of each return address. They count from the stack pointer, which
//! is known, or from the frame pointer, which is followed from the place where the tables say it
//! was saved. Exactly that word is taken.
//!
//! Where the frame pointer is not known, the function's first instructions may give the size of its
//! frame. Otherwise the next word is taken whose call leads to this function, else the next whose
//! call may lead anywhere. At the return from a signal handler, the registers of the interrupted
//! code lie at known places; from there on they are known again.
//!
//! What it promises: with a known pointer the frame is exactly what the tables say. What it does
//! not: frames found without a frame pointer are guesses.

use format::region::code_flag;

use crate::module::{Base, CallersFp, Step};

/// Words from the handler's return address to the registers of the interrupted code.
const SIGNAL_FP: i64 = code_flag::SIGNAL_FP as i64;
const SIGNAL_PC: i64 = code_flag::SIGNAL_PC as i64;

/// A word of the stack that may be a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its binary; None: not known.
    pub module: Option<usize>,
    /// Bytes from the begin of the file.
    pub offset: u64,
    /// Words above the stack pointer; -1 for the instruction pointer.
    pub position: i64,
    /// Where a saved frame pointer points, in words above this word, 0 none: the frame pointer
    /// in this word when it is a `pointer`, else the one in the word before.
    pub link: i64,
    /// It is no return address.
    pub pointer: bool,
    /// It is the instruction that was about to run. In the innermost word `link` is that of the
    /// frame pointer's register; in the word of interrupted code it is that of the stack pointer.
    pub running: bool,
}

/// What the binaries say.
pub trait Code {
    /// How to get from the frame at `at` to its caller. `called`: the address follows a call.
    fn step(&mut self, at: Candidate, called: bool) -> Step;
    /// Words from the stack pointer to the return address, for a function with a frame pointer, if
    /// its code shows them.
    fn frame_words(&mut self, at: Candidate, called: bool) -> Option<i64>;
    /// Whether the call in front of `caller` can have led to the function that `at` runs in.
    fn leads(&mut self, caller: Candidate, at: Candidate, called: bool) -> Leads;
}

/// The target of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leads {
    /// To another function.
    Elsewhere,
    /// Not known: through a pointer or into another binary.
    Perhaps,
    /// This function.
    Here,
}

/// Indices of the frames among `stack` (innermost first); the first word is always a frame.
pub fn frames(stack: &[Candidate], code: &mut impl Code) -> Vec<usize> {
    let mut found = Vec::new();
    let register = stack.first().filter(|at| at.running && at.link > 0);
    let (mut sp, mut fp) = (0i64, register.map(|at| at.position.saturating_add(at.link)));
    let mut next = (!stack.is_empty()).then_some(0);
    while let Some(index) = next {
        let at = stack[index];
        let called = index > 0 && !at.running;
        found.push(index);
        if called {
            sp = at.position + 1;
        }
        if let Some(inside) = interrupted(stack, index) {
            let word = stack[inside];
            sp = word.position + word.link;
            fp = saved_at(stack, at.position.saturating_add(SIGNAL_FP));
            if word.link == 0 {
                // On another stack, about which nothing is known.
                found.push(inside);
                break;
            }
            next = Some(inside);
            continue;
        }
        let step = code.step(at, called);
        if step == Step::Outermost {
            break;
        }
        next = caller(stack, index, (step, sp, fp), code);
        let (Some(caller), Step::Return { words, fp: callers, .. }) = (next, step) else {
            fp = None;
            continue;
        };
        // Wherever the return address was found, the rest of the frame is counted from it.
        let base = stack[caller].position.saturating_sub(words);
        fp = match callers {
            CallersFp::Kept => fp,
            CallersFp::At(words) => saved_at(stack, base.saturating_add(words)),
            CallersFp::Lost => None,
        };
    }
    found
}

/// The return address of the frame at `index`, whose stack pointer is known and perhaps its frame
/// pointer: the word that `step` leads to, else a guess.
fn caller(
    stack: &[Candidate],
    index: usize,
    (step, sp, fp): (Step, i64, Option<i64>),
    code: &mut impl Code,
) -> Option<usize> {
    let at = stack[index];
    let called = index > 0 && !at.running;
    let base = match step {
        Step::Return { base: Base::Sp, .. } => Some(sp),
        Step::Return { base: Base::Fp, .. } => fp,
        Step::Outermost | Step::Unknown => None,
    };
    let outer = (index + 1..stack.len()).filter(|i| !stack[*i].pointer && !stack[*i].running);
    let exact = match (step, base) {
        (Step::Return { words, .. }, Some(base)) => {
            let place = base.saturating_add(words);
            outer.clone().find(|i| stack[*i].position == place && place >= sp)
        }
        // For a function in the middle of a call the stack pointer is known, too.
        (Step::Return { base: Base::Fp, .. }, None) if called => {
            let place = code.frame_words(at, called).map(|words| sp.saturating_add(words));
            outer.clone().find(|i| Some(stack[*i].position) == place)
        }
        _ => None,
    };
    let by_sp = matches!(step, Step::Return { base: Base::Sp, .. });
    match exact {
        None if !by_sp => {
            guess(stack, outer.filter(|i| stack[*i].position >= sp), at, called, code)
        }
        exact => exact,
    }
}

/// The interrupted code, when the word at `index` is the return address of a signal handler.
fn interrupted(stack: &[Candidate], index: usize) -> Option<usize> {
    let place = stack[index].position.saturating_add(SIGNAL_PC);
    (index + 1..stack.len())
        .take_while(|i| stack[*i].position <= place)
        .find(|i| stack[*i].running && stack[*i].position == place)
}

/// The word whose call leads to the function of `at`, else the first whose call may.
fn guess(
    stack: &[Candidate],
    outer: impl Iterator<Item = usize>,
    at: Candidate,
    called: bool,
    code: &mut impl Code,
) -> Option<usize> {
    let mut perhaps = None;
    for i in outer {
        match code.leads(stack[i], at, called) {
            Leads::Here => return Some(i),
            Leads::Perhaps => perhaps = perhaps.or(Some(i)),
            Leads::Elsewhere => {}
        }
    }
    perhaps
}

/// The target of the frame pointer saved at `place`.
fn saved_at(stack: &[Candidate], place: i64) -> Option<i64> {
    let holds = |word: &&Candidate| {
        word.link > 0 && word.position == place.saturating_add(i64::from(!word.pointer))
    };
    stack.iter().find(holds).map(|word| word.position + word.link)
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

        fn frame_words(&mut self, at: Candidate, _: bool) -> Option<i64> {
            // Only the rules of the last hundred apply.
            (at.offset >= 9000).then_some((at.offset % 100) as i64)
        }

        fn leads(&mut self, caller: Candidate, at: Candidate, _: bool) -> Leads {
            match self.0.iter().find(|k| k.0 == caller.offset).and_then(|k| k.2) {
                Some(target) if target == at.offset / 100 => Leads::Here,
                Some(_) => Leads::Elsewhere,
                None => Leads::Perhaps,
            }
        }
    }

    fn by_sp(words: i64) -> Step {
        Step::Return { base: Base::Sp, words, fp: CallersFp::Kept }
    }

    fn stack(words: &[(u64, i64)]) -> Vec<Candidate> {
        let candidate = |(offset, position): &(u64, i64)| Candidate {
            module: Some(0),
            offset: *offset,
            position: *position,
            link: 0,
            pointer: false,
            running: false,
        };
        words.iter().map(candidate).collect()
    }

    #[test]
    fn the_unwind_rule_passes_over_leftovers() {
        let words = stack(&[(110, -1), (910, 0), (210, 3), (920, 4), (310, 9), (930, 10)]);
        let mut code =
            Known(vec![(110, by_sp(3), None), (210, by_sp(5), None), (310, Step::Outermost, None)]);
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
        let mut code =
            Known(vec![(110, by_sp(5), None), (210, by_sp(i64::MAX), None), (310, by_sp(0), None)]);
        assert_eq!(frames(&words, &mut code), [0, 1]);
        assert!(frames(&[], &mut code).is_empty());
    }

    #[test]
    fn a_running_threads_frame_pointer_is_known() {
        let mut words = stack(&[(110, -1), (910, 2), (210, 7), (310, 12)]);
        // Words 6 and 7 hold the caller's frame pointer and the return address.
        (words[0].running, words[0].link) = (true, 7);
        let by_fp = Step::Return { base: Base::Fp, words: 1, fp: CallersFp::Lost };
        let rules =
            || vec![(110, by_fp, None), (210, by_sp(4), None), (310, Step::Outermost, None)];
        assert_eq!(frames(&words, &mut Known(rules())), [0, 2, 3]);
        // In a blocked thread it is not known, and the next word may be right as well.
        words[0].running = false;
        assert_eq!(frames(&words, &mut Known(rules())), [0, 1, 2, 3]);
    }

    #[test]
    fn without_the_frame_pointer_the_size_of_the_frame_gives_the_caller() {
        // 9105 has a frame of five words, among them a leftover whose call may lead there.
        let words = stack(&[(110, -1), (9105, 0), (920, 3), (210, 6), (930, 7), (310, 9)]);
        let by_fp = Step::Return { base: Base::Fp, words: 1, fp: CallersFp::Lost };
        let mut rules = vec![
            (110, by_sp(0), None),
            (9105, by_fp, None),
            (210, by_sp(2), None),
            (310, Step::Outermost, None),
        ];
        assert_eq!(frames(&words, &mut Known(rules.clone())), [0, 1, 3, 5]);
        // Without a return address at that place, it is a guess again.
        rules[1].0 = 9104;
        let mut other = words.clone();
        other[1].offset = 9104;
        assert_eq!(frames(&other, &mut Known(rules))[..3], [0, 1, 2]);
    }

    #[test]
    fn after_a_signal_handler_comes_the_interrupted_code() {
        // 110 is the handler, called by the restorer at 3. The interrupted code has its stack
        // pointer at 40, and its frame pointer, saved at 19, points to 44.
        let mut words = stack(&[
            (110, -1),
            (910, 1),
            (500, 3),
            (920, 8),
            (0, 19),
            (210, 25),
            (930, 30),
            (940, 41),
            (310, 45),
            (410, 50),
        ]);
        (words[4].pointer, words[4].link) = (true, 25);
        (words[5].running, words[5].link) = (true, 15);
        let by_fp = Step::Return { base: Base::Fp, words: 1, fp: CallersFp::At(0) };
        let rules = || {
            Known(vec![
                (110, by_sp(3), None),
                (210, by_fp, None),
                (310, by_sp(4), None),
                (410, Step::Outermost, None),
            ])
        };
        assert_eq!(frames(&words, &mut rules()), [0, 2, 5, 8, 9]);
        // On a stack of its own: only the interrupted frame is known.
        words[5].link = 0;
        assert_eq!(frames(&words, &mut rules()), [0, 2, 5]);
        // Leftovers in a signal's frame are not callers.
        words[5].running = true;
        words[2].position = 2;
        assert_eq!(frames(&words, &mut rules()), [0]);
    }

    #[test]
    fn a_frame_pointer_is_followed_from_where_it_was_saved() {
        // The innermost function saved the frame pointer away from its return address.
        let mut words =
            stack(&[(110, -1), (0, 1), (210, 3), (910, 5), (310, 9), (920, 11), (410, 19)]);
        (words[1].pointer, words[1].link) = (true, 7);
        // The frame of 210 has its frame pointer at 8, and in it that of 310, at 18.
        words[4].link = 9;
        words[3].link = 3;
        let by_fp = Step::Return { base: Base::Fp, words: 1, fp: CallersFp::At(0) };
        let saves = Step::Return { base: Base::Sp, words: 3, fp: CallersFp::At(1) };
        let mut code = Known(vec![
            (110, saves, None),
            (210, by_fp, None),
            (310, by_fp, None),
            (410, Step::Outermost, None),
        ]);
        assert_eq!(frames(&words, &mut code), [0, 2, 4, 6]);
    }
}
