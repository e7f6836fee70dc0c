//! The frames of stacks, within a bound.
//!
//! A capture stores a stack as its innermost node, so a small file can hold stacks whose frames,
//! all written out, would fill the memory. The first 8 million frames are written, far more than a
//! recorder keeps; of each stack past that only the innermost 16, below a frame that says so.

use capture::read::{Capture, Frame};

/// Frames that are written before stacks are cut.
const MOST_FRAMES: usize = 8_000_000;
/// Frames of a stack that is cut.
const FEW_FRAMES: usize = 16;

/// The frame for a thread that was sampled without a Python stack.
pub const NO_STACK: &str = "[no Python stack]";
/// The frame for time without a sample of the thread in it or near.
pub const NOT_SAMPLED: &str = "[not sampled]";
/// The frame for the outer frames of a stack that was cut.
pub const CUT: &str = "[cut: too many frames]";

/// The frames of one export.
pub struct Frames<'c> {
    capture: &'c Capture,
    left: usize,
}

impl<'c> Frames<'c> {
    /// For one export of a capture.
    pub fn new(capture: &'c Capture) -> Frames<'c> {
        Frames { capture, left: MOST_FRAMES }
    }

    /// For the next part of a capture, after so many frames of the parts before.
    pub fn after(capture: &'c Capture, written: usize) -> Frames<'c> {
        Frames { capture, left: MOST_FRAMES.saturating_sub(written) }
    }

    /// How many frames were given out so far.
    pub fn written(&self) -> usize {
        MOST_FRAMES - self.left
    }

    /// The frames of a stack, innermost first; empty when there are none.
    pub fn of(&mut self, stack: u32) -> Vec<Frame<'c>> {
        let most = if self.left > FEW_FRAMES { self.left } else { FEW_FRAMES };
        let mut frames: Vec<Frame<'c>> = self.capture.frames(stack).take(most + 1).collect();
        if frames.len() > most {
            frames.truncate(most);
            frames.push(placeholder(CUT));
        }
        self.left = self.left.saturating_sub(frames.len());
        frames
    }

    /// The same; a stack without frames gives the frame that replaces it. Stack 0 is a thread
    /// without a Python stack, None a thread that was not sampled.
    pub fn or_placeholder(&mut self, stack: Option<u32>) -> Vec<Frame<'c>> {
        let frames = self.of(stack.unwrap_or(0));
        match frames.is_empty() {
            true => vec![placeholder(no_frames(stack))],
            false => frames,
        }
    }
}

/// The frame that replaces a stack without frames.
pub fn no_frames(stack: Option<u32>) -> &'static str {
    if stack.is_some() {
        NO_STACK
    } else {
        NOT_SAMPLED
    }
}

/// A frame without a place. These ids are never a code's: there are fewer codes than bytes in a
/// file.
fn placeholder(function: &'static str) -> Frame<'static> {
    let code = match function {
        NO_STACK => u32::MAX,
        NOT_SAMPLED => u32::MAX - 1,
        _ => u32::MAX - 2,
    };
    Frame { function, file: "", line: 0, code, releases: false, native: false }
}

#[cfg(test)]
mod tests {
    use capture::read::{Code, StackNode};

    use super::*;

    #[test]
    fn past_the_bound_stacks_are_cut_and_say_so() {
        let mut capture = Capture { names: vec!["f".to_owned()], ..Capture::default() };
        capture.codes = vec![Code {
            function: 0,
            file: 0,
            first_line: 1,
            releases: false,
            native: false,
            inner: false,
        }];
        capture.stacks = (0..100).map(|i| StackNode { parent: i, code: 1, line: i + 1 }).collect();
        let mut frames = Frames { capture: &capture, left: 120 };
        assert_eq!(frames.of(100).len(), 100, "whole");
        let lines: Vec<u32> = frames.of(100).iter().map(|f| f.line).collect();
        assert_eq!((lines.len(), lines[0]), (21, 100), "what is left of the bound");
        let cut = frames.of(99);
        assert_eq!((cut.len(), cut[0].line, cut[16].function), (17, 99, CUT));
        assert_eq!(frames.of(3).len(), 3, "short ones stay whole");
        assert_eq!(frames.or_placeholder(Some(0))[0].function, NO_STACK);
        assert_eq!(frames.or_placeholder(None)[0].function, NOT_SAMPLED);
    }
}
