//! Draws the parts of a program: names without a meaning, functions and their lines, shared things,
//! threads beside.
//!
//! What it promises: each part is drawn from the maker's own sequence, so a program is a pure
//! function of its seed. Which parts a program has is decided by the defect (`defects`) and by
//! `draw`.

use super::{Beside, FnId, Function, Op, Step, Thing, ThingId, HOME, MS};
use crate::random::Random;

/// Draws the parts of a program.
pub struct Maker {
    /// Chance.
    pub random: Random,
    /// It has its defect; else it is the healthy twin.
    pub sick: bool,
    /// The length of its trouble, where that is not drawn.
    pub trouble_ns: Option<u64>,
    /// Functions so far.
    pub functions: Vec<Function>,
    /// Things so far.
    pub things: Vec<Thing>,
    /// Threads beside so far.
    pub beside: Vec<Beside>,
    file: String,
    line: u32,
    words: Vec<String>,
}

impl Maker {
    /// At the start of a program.
    pub fn new(seed: u64, sick: bool) -> Maker {
        let mut made = Maker {
            random: Random::of(seed, 3),
            sick,
            trouble_ns: None,
            functions: Vec::new(),
            things: Vec::new(),
            beside: Vec::new(),
            file: String::new(),
            line: 1,
            words: Vec::new(),
        };
        let main = made.word();
        made.in_file(&main);
        made
    }

    /// A word that means nothing, each once.
    pub fn word(&mut self) -> String {
        loop {
            let mut word = String::new();
            for _ in 0..self.random.between(2, 3) {
                word.push(*self.random.pick(&b"bdfgklmnprstvz"[..]) as char);
                word.push(*self.random.pick(&b"aeiou"[..]) as char);
            }
            if !self.words.contains(&word) {
                self.words.push(word.clone());
                return word;
            }
        }
    }

    /// The functions that follow are in this file.
    pub fn in_file(&mut self, stem: &str) {
        (self.file, self.line) = (format!("{HOME}/{stem}.py"), 10);
    }

    /// A length of a trouble: 220 to 700 ms.
    pub fn trouble(&mut self) -> u64 {
        self.trouble_of(220, 700)
    }

    /// A length of a trouble, ms, unless the program has one of its own.
    pub fn trouble_of(&mut self, from: u64, to: u64) -> u64 {
        let drawn = self.random.between(from, to) * MS;
        self.trouble_ns.unwrap_or(drawn)
    }

    /// A new shared thing.
    pub fn thing(&mut self, thing: Thing) -> ThingId {
        self.things.push(thing);
        self.things.len() - 1
    }

    /// A new function.
    pub fn function(&mut self, ops: Vec<Op>) -> FnId {
        self.define(ops, false)
    }

    /// A new coroutine.
    pub fn coroutine(&mut self, ops: Vec<Op>) -> FnId {
        self.define(ops, true)
    }

    fn define(&mut self, ops: Vec<Op>, is_task: bool) -> FnId {
        let name = self.word();
        let first_line = self.line;
        self.line += 1;
        let body = self.steps(ops);
        self.line += 2;
        let file = self.file.clone();
        self.functions.push(Function { name, file, first_line, is_task, body });
        self.functions.len() - 1
    }

    /// Steps with lines, in order.
    pub fn steps(&mut self, ops: Vec<Op>) -> Vec<Step> {
        ops.into_iter().map(|op| self.step(op)).collect()
    }

    fn step(&mut self, op: Op) -> Step {
        let line = self.line;
        self.line += 1;
        let op = match op {
            Op::Repeat(times, body) => Op::Repeat(times, self.renumbered(body)),
            Op::Forever(body) => Op::Forever(self.renumbered(body)),
            Op::Every { of, at, body } => Op::Every { of, at, body: self.renumbered(body) },
            Op::With(thing, body) => Op::With(thing, self.renumbered(body)),
            Op::AsyncWith(thing, body) => Op::AsyncWith(thing, self.renumbered(body)),
            Op::Inside(thing, body) => Op::Inside(thing, self.renumbered(body)),
            Op::Reading(thing, body) => Op::Reading(thing, self.renumbered(body)),
            Op::Writing(thing, body) => Op::Writing(thing, self.renumbered(body)),
            Op::Transaction(thing, body) => Op::Transaction(thing, self.renumbered(body)),
            Op::ByHand(thing, limit, body) => Op::ByHand(thing, limit, self.renumbered(body)),
            other => other,
        };
        Step { line, op }
    }

    fn renumbered(&mut self, body: Vec<Step>) -> Vec<Step> {
        self.steps(body.into_iter().map(|step| step.op).collect())
    }

    /// The name of a function.
    pub fn name(&self, function: FnId) -> String {
        self.functions[function].name.clone()
    }

    /// A thread beside that runs this for ever.
    pub fn round(&mut self, ops: Vec<Op>) {
        let function = self.function(vec![Op::Forever(bare(ops))]);
        let name = format!("Thread-{} ({})", 40 + self.beside.len(), self.name(function));
        self.beside.push(Beside { name, function });
    }

    /// The same as a task.
    pub fn task_round(&mut self, ops: Vec<Op>) {
        let function = self.coroutine(vec![Op::Forever(bare(ops))]);
        self.beside.push(Beside { name: String::new(), function });
    }
}

/// Steps whose lines are given when their function is made.
pub fn bare(ops: Vec<Op>) -> Vec<Step> {
    ops.into_iter().map(|op| Step { line: 0, op }).collect()
}
