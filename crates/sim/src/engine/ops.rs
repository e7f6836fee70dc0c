//! What each step of a program is made of: system calls, the GIL around them, library frames.
//!
//! One arm an `Op`. A call that blocks is: enter the library's frames, release the GIL, the cost of
//! a call, block, take the GIL, leave the frames.

use format::wait::{AwaitKind, WaitKind};

use super::actor::{Attempt, Awaits, Cpu, Effect, End, Micro, On, Tid, Wait, Why};
use super::world::World;
use crate::program::lib_frames::{self, Lib};
use crate::program::{Asked, Awaiting, Native, Op, Outside, Span, Thing, ThingId, MS, US};

/// Page faults of memory touched for the first time: ns each.
const FAULT_NS: u64 = 700;
/// Storage traffic that keeps a core busy: ns a KiB.
const COPY_NS_A_KIB: u64 = 500;
/// Pages read from storage at once, and the work between two reads.
const MAJOR_NS: (u64, u64) = (2 * MS, 8 * MS);

impl Attempt {
    /// What is waited on where it fails.
    pub fn on(self) -> On {
        match self {
            Attempt::Lock { thing, .. } | Attempt::Read(thing) | Attempt::Write(thing) => {
                On::Lock(thing)
            }
            Attempt::Permit(thing) => On::Permit(thing),
            Attempt::Item(thing) => On::Item(thing),
            Attempt::Room(thing) => On::Room(thing),
            Attempt::Event(thing) => On::Event(thing),
            Attempt::Job(job) => On::Job(job),
            Attempt::End(tid) => On::End(tid),
            Attempt::Call(call) => On::Call(call),
        }
    }

    /// The thing that is tried for.
    pub fn thing(self) -> Option<ThingId> {
        match self {
            Attempt::Lock { thing, .. }
            | Attempt::Read(thing)
            | Attempt::Write(thing)
            | Attempt::Permit(thing)
            | Attempt::Item(thing)
            | Attempt::Room(thing)
            | Attempt::Event(thing) => Some(thing),
            Attempt::Job(_) | Attempt::End(_) | Attempt::Call(_) => None,
        }
    }
}

/// The pauses of SQLite's busy handler, ms; the last one comes again and again.
const BUSY_MS: [u64; 12] = [1, 2, 5, 10, 15, 20, 25, 25, 25, 50, 50, 100];

/// The pause of a database's client that has asked for its lock so often.
pub fn busy_pause(thing: ThingId, asked: usize) -> Wait {
    let until = Some(BUSY_MS[asked.min(BUSY_MS.len() - 1)] * MS);
    let (on, kind) = (On::Lock(thing), WaitKind::Sleep);
    Wait { on, kind, until, limited: true, limit_ns: 0, target: None }
}

/// An attempt inside of library frames.
pub fn attempt_with<'p>(
    attempt: Attempt,
    until: Option<u64>,
    frames: &'static [Lib],
) -> Vec<Micro<'p>> {
    vec![Micro::Enter(frames), Micro::Try { attempt, until, kernel: false }, Micro::Enter(&[])]
}

/// C code that keeps the GIL, for a reason of its own.
fn kept<'p>(why: Why, left: u64) -> [Micro<'p>; 3] {
    [
        Micro::Do(Effect::Why(why)),
        Micro::Cpu { left, how: Cpu::Keeps },
        Micro::Do(Effect::Why(Why::Work)),
    ]
}

impl<'p> World<'p> {
    /// A length as it comes out this time.
    pub(super) fn drawn(&mut self, tid: Tid, span: Span) -> u64 {
        let most = span.mean * span.spread / 100;
        let off = self.threads[tid].random.below(2 * most + 1);
        span.mean - most.min(span.mean) + off
    }

    /// The operations of a step.
    pub(super) fn begin(&mut self, tid: Tid, op: &'p Op) -> Vec<Micro<'p>> {
        let left = self.threads[tid].random.between(2 * US, 8 * US);
        let mut micros = vec![Micro::Cpu { left, how: Cpu::Bytecode }];
        match op {
            Op::Call(function) => {
                let frame = self.frame(*function);
                self.threads[tid].body.frames.push(frame);
            }
            Op::Repeat(times, body) => {
                let end = End::Again(times.saturating_sub(1));
                micros.push(Micro::Push { steps: body, end });
            }
            Op::Forever(body) => micros.push(Micro::Push { steps: body, end: End::Forever }),
            Op::Every { of, at, body } => {
                let number = self.number_of(tid);
                if number % of == *at {
                    micros.push(Micro::Push { steps: body, end: End::Plain });
                }
            }
            Op::Compute(span) => {
                micros.push(Micro::Cpu { left: self.drawn(tid, *span), how: Cpu::Bytecode });
            }
            Op::Native(span, Native::Keeps) => {
                micros.push(Micro::Cpu { left: self.drawn(tid, *span), how: Cpu::Keeps });
            }
            Op::Native(span, Native::Blocks) => {
                let until = Some(self.drawn(tid, *span));
                let (on, kind) = (On::Outside(Outside::Read), WaitKind::FileRead);
                let wait = Wait { on, kind, until, limited: false, limit_ns: 0, target: None };
                micros.push(Micro::Sleep(wait));
            }
            Op::Native(span, Native::Releases) => {
                let left = self.drawn(tid, *span);
                micros.extend([
                    Micro::DropGil { asked: false },
                    Micro::Cpu { left, how: Cpu::Free },
                    Micro::TakeGil,
                ]);
            }
            Op::Wait(outside, span, name) => {
                let length = self.drawn(tid, *span);
                self.wait_outside(tid, &mut micros, (*outside, length), name);
            }
            _ => self.begin_shared(tid, op, &mut micros),
        }
        micros
    }

    /// The same for steps that concern others.
    fn begin_shared(&mut self, tid: Tid, op: &'p Op, micros: &mut Vec<Micro<'p>>) {
        match op {
            Op::Get(thing) => {
                micros.extend(attempt_with(Attempt::Item(*thing), None, lib_frames::QUEUE_GET));
            }
            Op::Put(thing) => {
                micros.extend(attempt_with(Attempt::Room(*thing), None, lib_frames::QUEUE_PUT));
            }
            Op::Submit { to, function, wait } => {
                micros.push(Micro::Submit { to: *to, function: *function, wait: *wait });
            }
            Op::Join(function) => micros.push(Micro::Start { function: *function, join: true }),
            Op::Start(function) => micros.push(Micro::Start { function: *function, join: false }),
            Op::JoinLast => micros.push(Micro::JoinLast),
            Op::EventWait(thing) => {
                let frames = self.notice_frames(*thing);
                micros.extend(attempt_with(Attempt::Event(*thing), None, frames));
            }
            Op::Ask { of, limit, again } => self.begin_ask(tid, (of, *limit, *again), micros),
            Op::Take(thing) => {
                let frames = lib_frames::SEMAPHORE;
                micros.extend(attempt_with(Attempt::Permit(*thing), None, frames));
            }
            Op::GiveBack(thing) => micros.push(Micro::Do(Effect::GiveBack(*thing))),
            Op::Parallel(thing, span) => {
                micros.push(Micro::Parallel { to: *thing, left: self.drawn(tid, *span) });
            }
            Op::Spawn(function) => micros.push(Micro::Do(Effect::Spawn(*function))),
            Op::EventSet(thing) => micros.push(Micro::Do(Effect::Set(*thing))),
            Op::Collect(_) | Op::Fork(_) | Op::Import(..) | Op::Touch(_) | Op::Copy(_) => {
                self.begin_heavy(tid, op, micros);
            }
            Op::Await(awaiting) => self.begin_await(tid, awaiting, micros),
            _ => self.begin_locked(tid, op, micros),
        }
    }

    /// The same for steps that hold a lock or a permit.
    fn begin_locked(&mut self, tid: Tid, op: &'p Op, micros: &mut Vec<Micro<'p>>) {
        match op {
            Op::With(thing, body) => {
                let permits = matches!(self.program.things[*thing], Thing::Semaphore(_));
                let (attempt, end, frames) = match permits {
                    true => (Attempt::Permit(*thing), End::GiveBack(*thing), lib_frames::SEMAPHORE),
                    false => {
                        let attempt = Attempt::Lock { thing: *thing, by_with: true };
                        (attempt, End::Unlock(*thing), &[][..])
                    }
                };
                micros.extend(attempt_with(attempt, None, frames));
                micros.push(Micro::Push { steps: body, end });
            }
            Op::ByHand(thing, limit, body) => {
                let until = limit.map(|span| self.now + self.drawn(tid, span));
                let permits = matches!(self.program.things[*thing], Thing::Semaphore(_));
                let (attempt, end, frames) = match permits {
                    true => (Attempt::Permit(*thing), End::GiveBack(*thing), lib_frames::SEMAPHORE),
                    false => {
                        let attempt = Attempt::Lock { thing: *thing, by_with: false };
                        (attempt, End::Unlock(*thing), &[][..])
                    }
                };
                micros.extend(attempt_with(attempt, until, frames));
                micros.push(Micro::PushIfHad { steps: body, end });
            }
            Op::Inside(thing, body) => {
                let attempt = Attempt::Lock { thing: *thing, by_with: false };
                micros.extend(attempt_with(attempt, None, &[]));
                micros.push(Micro::Push { steps: body, end: End::Unlock(*thing) });
            }
            Op::Reading(thing, body) | Op::Writing(thing, body) => {
                let attempt = match op {
                    Op::Reading(..) => Attempt::Read(*thing),
                    _ => Attempt::Write(*thing),
                };
                micros.extend(attempt_with(attempt, None, &[]));
                micros.push(Micro::Push { steps: body, end: End::UnlockShared(*thing) });
            }
            Op::Transaction(thing, body) => {
                micros.extend([
                    Micro::Enter(lib_frames::BUSY),
                    Micro::DropGil { asked: false },
                    self.call_cost(tid),
                    Micro::AskBusy { thing: *thing, asked: 0 },
                    Micro::TakeGil,
                    Micro::Enter(&[]),
                    Micro::Push { steps: body, end: End::Unlock(*thing) },
                ]);
            }
            Op::AsyncWith(thing, body) => {
                let permits = matches!(self.program.things[*thing], Thing::TaskSemaphore(_));
                let attempt = match permits {
                    true => Attempt::Permit(*thing),
                    false => Attempt::Lock { thing: *thing, by_with: true },
                };
                let (frames, end) = match permits {
                    true => (lib_frames::TASK_SEMAPHORE, End::GiveBack(*thing)),
                    false => (lib_frames::TASK_LOCK, End::Unlock(*thing)),
                };
                micros.extend(attempt_with(attempt, None, frames));
                micros.push(Micro::Push { steps: body, end });
            }
            _ => (),
        }
    }

    /// The frames in which a notice is waited for.
    fn notice_frames(&self, thing: ThingId) -> &'static [Lib] {
        match self.program.things[thing] {
            Thing::Condition => lib_frames::NOTICE,
            _ => lib_frames::EVENT_WAIT,
        }
    }

    /// Asks with a time limit, once or until it has what it asks for.
    fn begin_ask(
        &mut self,
        tid: Tid,
        (of, limit, again): (&'p Asked, Span, bool),
        micros: &mut Vec<Micro<'p>>,
    ) {
        let (attempt, frames) = match of {
            Asked::Item(thing) => (Attempt::Item(*thing), lib_frames::QUEUE_GET_LIMITED),
            Asked::Notice(thing) => (Attempt::Event(*thing), self.notice_frames(*thing)),
            Asked::Answer(length, peer) => {
                let length = self.drawn(tid, *length);
                return self.poll_in_slices(tid, micros, (length, limit.mean), peer);
            }
        };
        let until = self.now + self.drawn(tid, limit);
        micros.extend(attempt_with(attempt, Some(until), frames));
        if again {
            micros.push(Micro::AskAgain { attempt, limit, frames });
        }
    }

    /// A client library that polls its socket with a time limit until the answer is there.
    fn poll_in_slices(
        &mut self,
        tid: Tid,
        micros: &mut Vec<Micro<'p>>,
        (length, limit_ns): (u64, u64),
        peer: &str,
    ) {
        let target = Some(self.recorder.tables.name(peer));
        let on = On::Outside(Outside::Answer);
        let mut left = length;
        while left > 0 {
            let until = Some(left.min(limit_ns));
            left -= left.min(limit_ns);
            let wait = Wait { on, kind: WaitKind::Poll, until, limited: true, limit_ns, target };
            micros.extend([
                Micro::DropGil { asked: false },
                self.call_cost(tid),
                Micro::Sleep(wait),
                self.call_cost(tid),
                Micro::TakeGil,
                Micro::Cpu { left: 15 * US, how: Cpu::Bytecode },
            ]);
        }
    }

    /// The interpreter's and the kernel's own heavy work.
    fn begin_heavy(&mut self, tid: Tid, op: &'p Op, micros: &mut Vec<Micro<'p>>) {
        match op {
            Op::Collect(span) => {
                micros.push(Micro::Do(Effect::Collection(true)));
                micros.extend(kept(Why::Collect, self.drawn(tid, *span)));
                micros.push(Micro::Do(Effect::Collection(false)));
            }
            Op::Fork(span) => {
                micros.push(Micro::Do(Effect::Fork(true)));
                micros.extend(kept(Why::Fork, self.drawn(tid, *span)));
                micros.push(Micro::Do(Effect::Fork(false)));
            }
            Op::Import(span, module) => {
                let left = self.drawn(tid, *span);
                micros.extend([
                    Micro::Enter(lib_frames::IMPORT),
                    Micro::Do(Effect::Module(Some(*module))),
                    Micro::Do(Effect::Why(Why::Import)),
                    Micro::Cpu { left, how: Cpu::Bytecode },
                    Micro::Do(Effect::Why(Why::Work)),
                    Micro::Do(Effect::Module(None)),
                    Micro::Enter(&[]),
                ]);
            }
            Op::Touch(span) | Op::Copy(span) => {
                let copies = matches!(op, Op::Copy(_));
                let why = if copies { Why::Copy } else { Why::Touch };
                let mut left = self.drawn(tid, *span);
                micros.push(Micro::Do(Effect::Why(why)));
                // The counters grow as the work goes on.
                while left > 0 {
                    let part = left.min(10 * MS);
                    left -= part;
                    let (faults, storage_kib) = match copies {
                        true => (0, part / COPY_NS_A_KIB),
                        false => (part / FAULT_NS, 0),
                    };
                    let how = if copies { Cpu::Free } else { Cpu::Bytecode };
                    micros.push(Micro::Cpu { left: part, how });
                    micros.push(Micro::Do(Effect::Usage { faults, storage_kib, system_ns: 0 }));
                }
                if copies {
                    micros.insert(2, Micro::DropGil { asked: false });
                    micros.push(Micro::TakeGil);
                }
                micros.push(Micro::Do(Effect::Why(Why::Work)));
            }
            _ => (),
        }
    }

    /// A wait for something outside of the process.
    fn wait_outside(
        &mut self,
        tid: Tid,
        micros: &mut Vec<Micro<'p>>,
        (outside, length): (Outside, u64),
        name: &str,
    ) {
        let kind = match outside {
            Outside::Sleep => WaitKind::Sleep,
            Outside::Nap => WaitKind::Futex,
            Outside::Answer => WaitKind::SocketRead,
            Outside::Connect => WaitKind::Connect,
            Outside::Resolve => WaitKind::Poll,
            Outside::PipeRoom => WaitKind::PipeWrite,
            Outside::Sync => WaitKind::FileSync,
            Outside::Read => WaitKind::FileRead,
            Outside::Child => WaitKind::ChildWait,
            Outside::FileLock => WaitKind::FileLock,
            Outside::MajorFault => return self.major_faults(tid, micros, length),
        };
        let limited = matches!(outside, Outside::Sleep | Outside::Nap);
        let target = (!name.is_empty()).then(|| self.recorder.tables.name(name));
        let until = Some(length);
        let wait = Wait { on: On::Outside(outside), kind, until, limited, limit_ns: 0, target };
        micros.extend([
            Micro::Enter(outside.frames()),
            Micro::DropGil { asked: false },
            self.call_cost(tid),
            Micro::Sleep(wait),
            self.call_cost(tid),
            Micro::TakeGil,
            Micro::Enter(&[]),
        ]);
    }

    /// A mapped file is read page by page, with the GIL in hand.
    fn major_faults(&mut self, tid: Tid, micros: &mut Vec<Micro<'p>>, length: u64) {
        let mut left = length;
        while left > 0 {
            let part = self.threads[tid].random.between(MAJOR_NS.0, MAJOR_NS.1).min(left);
            left -= part;
            let on = On::Outside(Outside::MajorFault);
            let kind = WaitKind::Fault;
            let wait =
                Wait { on, kind, until: Some(part), limited: false, limit_ns: 0, target: None };
            let cost = self.threads[tid].random.between(30 * US, 120 * US);
            micros.push(Micro::Sleep(wait));
            let (faults, storage_kib) = (1, 64);
            micros.push(Micro::Do(Effect::Usage { faults, storage_kib, system_ns: cost }));
            micros.push(Micro::Cpu { left: cost, how: Cpu::Bytecode });
        }
    }

    /// What a task awaits.
    fn begin_await(&mut self, tid: Tid, awaiting: &'p Awaiting, micros: &mut Vec<Micro<'p>>) {
        let mut outside = |kind, on, length, frames, name: &str, limited| {
            let target = (!name.is_empty()).then(|| self.recorder.tables.name(name));
            let until = Some(self.drawn(tid, length));
            let on = On::Outside(on);
            let awaits = Awaits { kind, on, until, target, limited };
            [Micro::Enter(frames), Micro::Suspend(awaits), Micro::Enter(&[])]
        };
        match awaiting {
            Awaiting::Sleep(span) => {
                let frames = lib_frames::TASK_SLEEP;
                micros.extend(outside(AwaitKind::Sleep, Outside::Sleep, *span, frames, "", true));
            }
            Awaiting::Answer(span, peer) => {
                let frames = lib_frames::TASK_STREAM;
                let kind = AwaitKind::Socket;
                micros.extend(outside(kind, Outside::Answer, *span, frames, peer, false));
            }
            Awaiting::Connect(span, peer) => {
                let frames = lib_frames::TASK_CONNECT;
                let kind = AwaitKind::Connect;
                micros.extend(outside(kind, Outside::Connect, *span, frames, peer, false));
            }
            Awaiting::Get(thing) => {
                micros.extend(attempt_with(Attempt::Item(*thing), None, lib_frames::TASK_QUEUE));
            }
            Awaiting::Executor(to, function) => {
                micros.push(Micro::Hand { to: *to, function: *function });
            }
        }
    }
}
