//! A defect, and what it made of a program: what a request calls, the right answer.

use crate::program::maker::Maker;
use crate::program::{Answer, Host, Op, Server, Silent};

/// A way to be wrong.
pub struct Defect {
    /// Its name.
    pub name: &'static str,
    /// Servers under which it makes sense.
    pub servers: &'static [Server],
    /// Makes it.
    pub make: fn(&mut Maker, Host) -> Ill,
}

/// What a defect made.
pub struct Ill {
    /// What a request does.
    pub op: Op,
    /// The right answer.
    pub answer: Answer,
    /// Every request does it; else one in a few dozen.
    pub every: bool,
    /// How long a request may take.
    pub slow_ms: u64,
    /// The machine.
    pub host: Host,
    /// Functions that are right as the place.
    pub places: Vec<String>,
    /// Clients that send nothing.
    pub silent: Option<Silent>,
    /// Threads or workers that serve, where that matters.
    pub serving: Option<u32>,
    /// Requests a second, where that matters.
    pub rate: Option<u64>,
}

impl Ill {
    /// One of the request's own thread, in this function.
    pub fn own(maker: &Maker, function: usize, cause: &str, host: Host) -> Ill {
        Ill {
            op: Op::Call(function),
            answer: Answer { cause: cause.to_owned(), ..Answer::default() },
            every: false,
            slow_ms: 180,
            host,
            places: vec![maker.name(function)],
            silent: None,
            serving: None,
            rate: None,
        }
    }

    /// One of another thread: the victim's function, the culprit's.
    pub fn other(maker: &Maker, victim: usize, culprit: usize, cause: &str, host: Host) -> Ill {
        let own = Ill::own(maker, victim, cause, host);
        let culprits = vec![maker.name(culprit)];
        Ill { answer: Answer { culprits, ..own.answer }, every: true, ..own }
    }

    /// These causes are right as well.
    pub fn accepting(mut self, causes: &[&str]) -> Ill {
        self.answer.accept = causes.iter().map(|cause| (*cause).to_owned()).collect();
        self
    }

    /// A request may take so long.
    pub fn slow_ms(self, slow_ms: u64) -> Ill {
        Ill { slow_ms, ..self }
    }

    /// These functions are right as its place.
    pub fn at(self, places: Vec<String>) -> Ill {
        Ill { places, ..self }
    }

    /// Its place is not judged.
    pub fn nowhere(self) -> Ill {
        Ill { places: Vec::new(), ..self }
    }
}
