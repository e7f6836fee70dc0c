//! Programs drawn from a seed: a defect, its shape, a server, a load, noise, a machine.
//!
//! How it works: a `Maker` draws names, functions and lines; a defect (`defects`) says what the
//! guilty function does when the program is sick and when it is fixed. The twin of a program is
//! drawn from the same numbers, without the defect.
//!
//! What it promises: `program(seed, ..)` is a pure function. What is missing on purpose: programs
//! that make sense.

use super::defects::{Defect, Ill, DEFECTS};
use super::maker::{bare, Maker};
use super::{
    about, Answer, FnId, Host, Load, Native, Neighbour, Op, Outside, Program, Server, Span, Thing,
    MS, SECOND, US,
};

/// The defect of that name.
pub fn named(name: &str) -> Option<&'static Defect> {
    DEFECTS.iter().find(|defect| defect.name == name)
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
    let Ill { op, answer, every, slow_ms, host, places, silent, serving, rate: wanted } = {
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
    let rate = wanted.unwrap_or(rate);
    let load = match maker.random.chance(0.6) {
        true => Load::Closed { clients, think_ns: u64::from(clients) * SECOND / rate },
        false => Load::Open { every_ns: SECOND / rate },
    };
    let serving = serving.unwrap_or(match load {
        Load::Closed { clients, .. } => clients,
        Load::Open { .. } => maker.random.between(8, 16) as u32,
    });
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
        silent,
        host,
        slow_ns: slow_ms * MS,
        length_ns: 6 * SECOND,
        loss_percent,
        answer,
    }
}

/// What a program has that is not drawn.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Its server.
    pub server: Server,
    /// The length of its trouble.
    pub trouble_ns: u64,
    /// How long a request may take.
    pub slow_ns: u64,
}

/// A sick program of this shape, on two CPUs of its own and with nothing in it that misleads.
pub fn plain(seed: u64, defect: &Defect, shape: Shape) -> Program {
    let mut maker = Maker::new(seed, true);
    maker.trouble_ns = Some(shape.trouble_ns);
    let host = Host { cpus: 2, neighbours: Vec::new(), quota_ns: None, stops: Vec::new() };
    let Ill { op, answer, every, host, places, silent, serving, .. } =
        (defect.make)(&mut maker, host);
    let noise = vec![Op::Compute(about(300 * US))];
    let handler = handler(&mut maker, op, every, noise, shape.server == Server::Loop);
    Program {
        seed,
        defect: defect.name.to_owned(),
        functions: maker.functions,
        things: maker.things,
        handler,
        beside: maker.beside,
        server: shape.server,
        serving: serving.unwrap_or(CLIENTS),
        load: Load::Closed { clients: CLIENTS, think_ns: 100 * MS },
        silent,
        host,
        slow_ns: shape.slow_ns,
        length_ns: 6 * SECOND,
        loss_percent: 0,
        answer: Answer { places, ..answer },
    }
}

/// Clients of a plain program.
const CLIENTS: u32 = 4;

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
