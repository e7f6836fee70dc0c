//! Programs drawn from a seed: a defect, its shape, a server, a load, noise, a machine.
//!
//! How it works: a `Maker` draws names without a meaning, functions and lines; a defect (`defects`)
//! says what the guilty function does when the program is sick and when it is fixed. The twin of a
//! program is drawn from the same numbers, without the defect.
//!
//! What it promises: `program(seed, ..)` is a pure function. What is missing on purpose: programs
//! that make sense.

use super::defects::{Defect, Ill, DEFECTS};
use super::{
    about, Answer, Beside, FnId, Function, Host, Load, Native, Neighbour, Op, Outside, Program,
    Server, Span, Step, Thing, ThingId, HOME, MS, SECOND, US,
};
use crate::random::Random;

/// Draws the parts of a program.
pub struct Maker {
    /// Chance.
    pub random: Random,
    /// It has its defect; else it is the healthy twin.
    pub sick: bool,
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
    fn new(seed: u64, sick: bool) -> Maker {
        let mut made = Maker {
            random: Random::of(seed, 3),
            sick,
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
    fn in_file(&mut self, stem: &str) {
        (self.file, self.line) = (format!("{HOME}/{stem}.py"), 10);
    }

    /// A length of a trouble: 220 to 700 ms.
    pub fn trouble(&mut self) -> u64 {
        self.random.between(220, 700) * MS
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

/// Draws the defect of a seed.
pub fn defect_of(seed: u64) -> &'static Defect {
    // In turn, so that each comes as often as the others.
    let turn = seed as usize % DEFECTS.len();
    &DEFECTS[turn]
}

/// The program of a seed, or its healthy twin.
pub fn program(seed: u64, sick: bool) -> Program {
    of_defect(seed, defect_of(seed), sick)
}

/// The same with a given defect.
pub fn of_defect(seed: u64, defect: &Defect, sick: bool) -> Program {
    let mut maker = Maker::new(seed, sick);
    let server = *maker.random.pick(defect.servers);
    let host = host(&mut maker);
    let Ill { op, answer, every, slow_ms, host, places } = {
        // Guilty code lies in the main file, or in one of its own.
        if maker.random.chance(0.4) {
            let library = maker.word();
            maker.in_file(&library);
        }
        let ill = (defect.make)(&mut maker, host);
        wrap(&mut maker, ill, server == Server::Loop)
    };
    let main = maker.word();
    maker.in_file(&main);
    let noise = noise(&mut maker, server);
    let handler = handler(&mut maker, op, every, noise, server == Server::Loop);
    let clients = maker.random.between(3, 7) as u32;
    let rate = maker.random.between(20, 45);
    let load = match maker.random.chance(0.6) {
        true => Load::Closed { clients, think_ns: u64::from(clients) * SECOND / rate },
        false => Load::Open { every_ns: SECOND / rate },
    };
    let serving = match load {
        Load::Closed { clients, .. } => clients,
        Load::Open { .. } => maker.random.between(8, 16) as u32,
    };
    let loss_percent = if maker.random.chance(0.15) { maker.random.between(1, 3) } else { 0 };
    let answer = match sick {
        true => Answer { places, ..answer },
        false => Answer::default(),
    };
    Program {
        seed,
        defect: defect.name.to_owned(),
        functions: maker.functions,
        things: maker.things,
        handler,
        beside: maker.beside,
        server,
        serving,
        load,
        host,
        slow_ns: slow_ms * MS,
        length_ns: 6 * SECOND,
        loss_percent,
        answer,
    }
}

/// Puts functions between the handler and the guilty one, or hands the work to a thread.
fn wrap(maker: &mut Maker, ill: Ill, on_loop: bool) -> Ill {
    let Ill { op, places, .. } = &ill;
    let (mut op, mut places) = (op.clone(), places.clone());
    if !on_loop && ill.answer.culprits.is_empty() && maker.random.chance(0.15) {
        if let Op::Call(function) = op {
            op = Op::Join(function);
        }
    }
    for _ in 0..maker.random.below(3) {
        let ops = vec![op];
        let between = if on_loop { maker.coroutine(ops) } else { maker.function(ops) };
        op = Op::Call(between);
    }
    places.dedup();
    Ill { op, places, ..ill }
}

fn host(maker: &mut Maker) -> Host {
    let cpus = *maker.random.pick(&[1, 2, 2, 4, 4, 8]);
    let mut neighbours = Vec::new();
    for _ in 0..maker.random.below(3) {
        let busy = Span { mean: maker.random.between(1, 12) * MS, spread: 60 };
        let idle = Span { mean: maker.random.between(40, 300) * MS, spread: 60 };
        neighbours.push(Neighbour { busy, idle });
    }
    Host { cpus, neighbours, quota_ns: None, stops: Vec::new() }
}

/// What else a request does, and what goes on beside: to mislead.
fn noise(maker: &mut Maker, server: Server) -> Vec<Op> {
    let mut each =
        vec![Op::Compute(Span { mean: maker.random.between(500, 2500) * US, spread: 40 })];
    for _ in 0..maker.random.below(4) {
        match maker.random.below(7) {
            0 => {
                let hot = maker.function(vec![Op::Compute(about(800 * US))]);
                each.push(Op::Call(hot));
            }
            1 if server != Server::Loop => {
                let busy = maker.thing(Thing::Lock);
                let held = bare(vec![Op::Wait(Outside::Sleep, about(MS), String::new())]);
                let pause = Op::Wait(Outside::Sleep, about(4 * MS), String::new());
                maker.round(vec![Op::With(busy, held), pause]);
                each.push(Op::With(busy, Vec::new()));
            }
            2 => {
                let empty = maker.thing(Thing::Queue { items: 0, room: None });
                let never = maker.thing(Thing::Event);
                maker.round(vec![Op::Get(empty)]);
                maker.round(vec![Op::EventWait(never)]);
                maker.round(vec![Op::Wait(Outside::Sleep, about(200 * MS), String::new())]);
            }
            3 => {
                let pause = Op::Wait(Outside::Sleep, about(400 * MS), String::new());
                maker.round(vec![pause, Op::Native(about(15 * MS), Native::Releases)]);
            }
            4 if server != Server::Loop => {
                let peer = "tcp 127.0.0.1:6379".to_owned();
                each.push(Op::Wait(Outside::Answer, Span { mean: 600 * US, spread: 40 }, peer));
            }
            5 => {
                let (of, at) = (maker.random.between(7, 13), maker.random.below(7));
                let body = bare(vec![Op::Collect(about(3 * MS))]);
                each.push(Op::Every { of, at, body });
            }
            _ => {
                let pause = Op::Wait(Outside::Sleep, about(90 * MS), String::new());
                maker.round(vec![pause, Op::Compute(about(4 * MS))]);
            }
        }
    }
    each
}

fn handler(maker: &mut Maker, trouble: Op, every: bool, noise: Vec<Op>, on_loop: bool) -> FnId {
    let of = maker.random.between(24, 44);
    let at = maker.random.between(5, of - 1);
    let trouble = match every {
        true => trouble,
        false => Op::Every { of, at, body: bare(vec![trouble]) },
    };
    let mut ops = noise;
    let place = if maker.random.chance(0.5) { 0 } else { ops.len() };
    ops.insert(place, trouble);
    if on_loop {
        maker.coroutine(ops)
    } else {
        maker.function(ops)
    }
}
