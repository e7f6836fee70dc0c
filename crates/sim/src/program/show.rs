//! A program as a script that a person can read.
//!
//! It looks like Python, since that is what the functions stand for; lengths are in milliseconds.
//! Functions that nothing reaches are left out.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};

use super::{Asked, Awaiting, FnId, Load, Op, Program, Span, Step, Thing};

/// A length as `350 ms`.
fn ms(span: &Span) -> String {
    format!("{} ms", span.mean as f64 / 1e6)
}

impl Display for Program {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Program { seed, defect, host, server, serving, .. } = self;
        writeln!(f, "# seed {seed}, defect {defect}; wanted {}", self.wanted())?;
        let quota =
            host.quota_ns.map_or(String::new(), |ns| format!(", quota {} ms", ns / 1_000_000));
        let (cpus, others) = (host.cpus, host.neighbours.len());
        writeln!(f, "# {cpus} CPUs{quota}, {others} neighbours, {} stops", host.stops.len())?;
        let load = match self.load {
            Load::Closed { clients, think_ns } => {
                format!("{clients} clients, {} ms apart", think_ns / 1_000_000)
            }
            Load::Open { every_ns } => format!("a request each {} ms", every_ns / 1_000_000),
        };
        writeln!(
            f,
            "# {server:?} server of {serving}; {load}; slow over {} ms",
            self.slow_ns / 1_000_000
        )?;
        if let Some(silent) = &self.silent {
            let (every, length) = (silent.every_ns / 1_000_000, ms(&silent.length));
            writeln!(f, "# each {every} ms a client that sends nothing for {length}")?;
        }
        for neighbour in &host.neighbours {
            let (busy, idle) = (ms(&neighbour.busy), ms(&neighbour.idle));
            writeln!(f, "# neighbour: {busy} busy, {idle} idle")?;
        }
        for (index, thing) in self.things.iter().enumerate() {
            if self.reached().1.contains(&index) {
                writeln!(f, "thing{index} = {}", show_thing(thing))?;
            }
        }
        for function in self.reached().0 {
            let made = &self.functions[function];
            let file = made.file.rsplit('/').next().unwrap_or(&made.file);
            let word = if made.is_task { "async def" } else { "def" };
            writeln!(f, "\n{word} {}():  # {file}:{}", made.name, made.first_line)?;
            self.show_steps(f, &made.body, 1)?;
        }
        writeln!(f)?;
        for beside in &self.beside {
            writeln!(f, "start {}()", self.functions[beside.function].name)?;
        }
        writeln!(f, "serve {}()", self.functions[self.handler].name)
    }
}

fn show_thing(thing: &Thing) -> String {
    match thing {
        Thing::Semaphore(permits) => format!("Semaphore({permits})"),
        Thing::Queue { items, room: Some(room) } => format!("Queue({room}) with {items} items"),
        Thing::Queue { items, room: None } => format!("Queue() with {items} items"),
        Thing::Executor(workers) => format!("ThreadPoolExecutor({workers})"),
        Thing::TaskLock => "asyncio.Lock()".to_owned(),
        Thing::TaskSemaphore(permits) => format!("asyncio.Semaphore({permits})"),
        Thing::TaskQueue(items) => format!("asyncio.Queue() with {items} items"),
        Thing::Hidden => "a lock of C code".to_owned(),
        Thing::ReadWrite => "a read-write lock of C code".to_owned(),
        Thing::Database => "the lock of a database".to_owned(),
        Thing::Library(threads) => format!("a native library with {threads} threads"),
        Thing::Lock | Thing::RLock | Thing::Event | Thing::Condition => format!("{thing:?}()"),
    }
}

impl Program {
    fn wanted(&self) -> String {
        let answer = &self.answer;
        if answer.cause.is_empty() {
            return "nothing".to_owned();
        }
        format!("{} at {:?}, culprit {:?}", answer.cause, answer.places, answer.culprits)
    }

    fn name(&self, function: FnId) -> &str {
        self.functions.get(function).map_or("?", |made| &made.name)
    }

    /// Functions and things that are reached.
    fn reached(&self) -> (BTreeSet<FnId>, BTreeSet<usize>) {
        let (mut functions, mut things) = (BTreeSet::new(), BTreeSet::new());
        let mut left = vec![self.handler];
        left.extend(self.beside.iter().map(|beside| beside.function));
        while let Some(function) = left.pop() {
            if functions.insert(function) {
                mentions(&self.functions[function].body, &mut left, &mut things);
            }
        }
        (functions, things)
    }

    fn show_steps(&self, f: &mut Formatter<'_>, steps: &[Step], depth: usize) -> fmt::Result {
        let indent = "    ".repeat(depth);
        if steps.is_empty() {
            return writeln!(f, "{indent}pass");
        }
        for step in steps {
            let (text, body) = self.show(&step.op);
            writeln!(f, "{indent}{text}")?;
            if let Some(body) = body {
                self.show_steps(f, body, depth + 1)?;
            }
        }
        Ok(())
    }

    fn show<'s>(&self, op: &'s Op) -> (String, Option<&'s [Step]>) {
        let (text, body): (String, Option<&[Step]>) = match op {
            Op::Call(function) => (format!("{}()", self.name(*function)), None),
            Op::Repeat(times, body) => (format!("for _ in range({times}):"), Some(body)),
            Op::Forever(body) => ("while True:".to_owned(), Some(body)),
            Op::Every { of, at, body } => (format!("if number % {of} == {at}:"), Some(body)),
            Op::Compute(span) => (format!("compute({})", ms(span)), None),
            Op::Native(span, how) => (format!("call_c({}, gil={how:?})", ms(span)), None),
            Op::Wait(outside, span, name) => {
                (format!("wait_for({outside:?}, {}, {name:?})", ms(span)), None)
            }
            Op::With(thing, body) => (format!("with thing{thing}:"), Some(body)),
            Op::AsyncWith(thing, body) => (format!("async with thing{thing}:"), Some(body)),
            Op::ByHand(thing, limit, body) => {
                let limit = limit.as_ref().map_or("none".to_owned(), ms);
                (format!("if thing{thing}.acquire(limit={limit}):  # and release"), Some(body))
            }
            Op::Get(thing) => (format!("thing{thing}.get()"), None),
            Op::Put(thing) => (format!("thing{thing}.put(item)"), None),
            Op::Submit { to, function, wait } => {
                let result = if *wait { ".result()" } else { "" };
                (format!("thing{to}.submit({}){result}", self.name(*function)), None)
            }
            Op::Join(function) => {
                (format!("Thread({}).start().join()", self.name(*function)), None)
            }
            Op::Start(function) => (format!("t = Thread({}).start()", self.name(*function)), None),
            Op::JoinLast => ("t.join()".to_owned(), None),
            Op::EventWait(thing) => (format!("thing{thing}.wait()"), None),
            Op::EventSet(thing) => (format!("thing{thing}.set()"), None),
            Op::Collect(span) => (format!("gc.collect()  # {}", ms(span)), None),
            Op::Fork(span) => (format!("os.fork()  # {}", ms(span)), None),
            Op::Import(span, module) => {
                let file = self.functions.get(*module).map_or("?", |made| &made.file);
                (format!("import {file}  # {}", ms(span)), None)
            }
            Op::Touch(span) => (format!("touch_memory({})", ms(span)), None),
            Op::Copy(span) => (format!("copy_data({})", ms(span)), None),
            Op::Ask { of, limit, again } => {
                let until = if *again { "while not " } else { "" };
                (format!("{until}{}, limit={}", self.show_asked(of), ms(limit)), None)
            }
            Op::Take(thing) => (format!("thing{thing}.acquire()"), None),
            Op::GiveBack(thing) => (format!("thing{thing}.release()"), None),
            Op::Inside(thing, body) => (format!("call_c_that_locks(thing{thing}):"), Some(body)),
            Op::Reading(thing, body) => (format!("call_c_that_reads(thing{thing}):"), Some(body)),
            Op::Writing(thing, body) => (format!("call_c_that_writes(thing{thing}):"), Some(body)),
            Op::Transaction(thing, body) => (format!("with thing{thing}.begin():"), Some(body)),
            Op::Parallel(thing, span) => (format!("thing{thing}.collect()  # {}", ms(span)), None),
            Op::Spawn(function) => (format!("create_task({}())", self.name(*function)), None),
            Op::Await(awaiting) => (format!("await {}", self.show_await(awaiting)), None),
        };
        (text, body)
    }

    fn show_asked(&self, asked: &Asked) -> String {
        match asked {
            Asked::Item(thing) => format!("thing{thing}.get()"),
            Asked::Notice(thing) => format!("thing{thing}.wait()"),
            Asked::Answer(span, peer) => format!("poll({peer:?}, answers after {})", ms(span)),
        }
    }

    fn show_await(&self, awaiting: &Awaiting) -> String {
        match awaiting {
            Awaiting::Sleep(span) => format!("sleep({})", ms(span)),
            Awaiting::Answer(span, peer) => format!("answer_of({peer:?}, {})", ms(span)),
            Awaiting::Connect(span, peer) => format!("connect({peer:?}, {})", ms(span)),
            Awaiting::Get(thing) => format!("thing{thing}.get()"),
            Awaiting::Executor(thing, function) => {
                format!("run_in_executor(thing{thing}, {})", self.name(*function))
            }
        }
    }
}

/// The functions and things that steps name.
fn mentions(steps: &[Step], functions: &mut Vec<FnId>, things: &mut BTreeSet<usize>) {
    for step in steps {
        match &step.op {
            Op::Call(function) | Op::Join(function) | Op::Start(function) | Op::Spawn(function) => {
                functions.push(*function);
            }
            Op::Submit { to, function, .. } | Op::Await(Awaiting::Executor(to, function)) => {
                functions.push(*function);
                things.insert(*to);
            }
            Op::Repeat(_, body) | Op::Forever(body) | Op::Every { body, .. } => {
                mentions(body, functions, things);
            }
            Op::With(thing, body)
            | Op::AsyncWith(thing, body)
            | Op::Inside(thing, body)
            | Op::Reading(thing, body)
            | Op::Writing(thing, body)
            | Op::Transaction(thing, body)
            | Op::ByHand(thing, _, body) => {
                things.insert(*thing);
                mentions(body, functions, things);
            }
            Op::Get(thing)
            | Op::Put(thing)
            | Op::EventWait(thing)
            | Op::EventSet(thing)
            | Op::Take(thing)
            | Op::GiveBack(thing)
            | Op::Parallel(thing, _)
            | Op::Ask { of: Asked::Item(thing) | Asked::Notice(thing), .. }
            | Op::Await(Awaiting::Get(thing)) => drop(things.insert(*thing)),
            _ => (),
        }
    }
}
