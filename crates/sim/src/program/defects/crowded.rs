//! Defects in which what a request waits for names no holder, is behind another wait, or comes
//! before its handler; and loops and libraries that work for long in parts.

use super::ill::Ill;
use crate::program::maker::{bare, Maker};
use crate::program::{about, Host, Neighbour, Op, Outside, Silent, Span, Thing, MS, SECOND, US};

fn sleep(length: u64) -> Op {
    Op::Wait(Outside::Sleep, about(length), String::new())
}

fn pause(maker: &mut Maker) -> Op {
    sleep(maker.random.between(1200, 1900) * MS)
}

fn quick() -> Vec<Op> {
    vec![Op::Compute(about(20 * US))]
}

/// A lock inside of C code, whose holder shows only by where it is.
pub fn hidden_lock(maker: &mut Maker, host: Host) -> Ill {
    let gate = maker.thing(Thing::Hidden);
    let length = if maker.sick { maker.trouble() } else { 100 * US };
    let holder = maker.function(vec![Op::Inside(gate, bare(vec![sleep(length)]))]);
    let round = vec![pause(maker), Op::Call(holder)];
    maker.round(round);
    let victim = maker.function(vec![Op::Inside(gate, bare(quick()))]);
    Ill::other(maker, victim, holder, "lock-wait", host)
}

/// Permits that one function takes, another one keeps, and a third gives back.
pub fn hidden_permits(maker: &mut Maker, host: Host) -> Ill {
    let permits = maker.thing(Thing::Semaphore(1));
    let length = if maker.sick { maker.trouble() } else { 100 * US };
    let take = maker.function(vec![Op::Take(permits)]);
    let holder = maker.function(vec![sleep(length)]);
    let give = maker.function(vec![Op::GiveBack(permits)]);
    let round = vec![pause(maker), Op::Call(take), Op::Call(holder), Op::Call(give)];
    maker.round(round);
    let ops = vec![Op::Take(permits), Op::Compute(about(20 * US)), Op::GiveBack(permits)];
    let victim = maker.function(ops);
    Ill::other(maker, victim, holder, "pool-wait", host).accepting(&["lock-wait"])
}

/// A bounded queue, emptied by a worker that waits for room in the next one, whose worker waits for
/// its peer.
pub fn hops_queue(maker: &mut Maker, host: Host) -> Ill {
    let line = maker.thing(Thing::Queue { items: 0, room: Some(1) });
    let wire = maker.thing(Thing::Queue { items: 0, room: Some(1) });
    let length = if maker.sick { maker.trouble() } else { 600 * US };
    let peer = "tcp 127.0.0.1:24224".to_owned();
    let send = maker.function(vec![Op::Wait(Outside::Answer, about(length), peer)]);
    let pack = bare(vec![Op::Get(line), Op::Compute(about(50 * US)), Op::Put(wire)]);
    maker.round(pack.into_iter().map(|step| step.op).collect());
    let take = bare(vec![Op::Get(wire), Op::Compute(about(50 * US))]);
    let times = maker.random.between(30, 60) as u32;
    maker.round(vec![Op::Repeat(times, take), Op::Call(send)]);
    let victim = maker.function(vec![Op::Put(line)]);
    Ill::other(maker, victim, send, "pool-wait", host)
}

/// A bounded queue, emptied by a worker that waits for a lock.
pub fn hops_lock(maker: &mut Maker, host: Host) -> Ill {
    let line = maker.thing(Thing::Queue { items: 0, room: Some(2) });
    let gate = maker.thing(Thing::Lock);
    let length = if maker.sick { maker.trouble() } else { 100 * US };
    let holder = maker.function(vec![sleep(length)]);
    let round = vec![pause(maker), Op::With(gate, bare(vec![Op::Call(holder)]))];
    maker.round(round);
    let write = Op::With(gate, bare(quick()));
    maker.round(vec![Op::Get(line), write]);
    let victim = maker.function(vec![Op::Put(line)]);
    Ill::other(maker, victim, holder, "pool-wait", host).accepting(&["lock-wait"])
}

/// A server of one thread, and clients that connect and send nothing.
pub fn client_silent(maker: &mut Maker, host: Host) -> Ill {
    let function = maker.function(quick());
    let length = if maker.sick { maker.trouble() } else { 200 * US };
    let every_ns = maker.random.between(1200, 1900) * MS;
    let ill = Ill::own(maker, function, "pool-wait", host).nowhere();
    let mut ill =
        Ill { every: true, silent: Some(Silent { every_ns, length: about(length) }), ..ill };
    ill.answer.culprits = vec!["chunk".to_owned()];
    ill
}

/// One worker, or two: a request that takes long keeps those that arrive behind it.
pub fn workers_kept(maker: &mut Maker, host: Host) -> Ill {
    let length = if maker.sick { maker.trouble() } else { 600 * US };
    let function = maker.function(vec![sleep(length)]);
    let ill = Ill::own(maker, function, "sleep", host).accepting(&["pool-wait"]);
    Ill { serving: Some(1), ..ill }
}

/// Many short callbacks, each harmless by itself.
pub fn loop_crowd(maker: &mut Maker, host: Host) -> Ill {
    let (many, each) = (maker.random.between(25, 40), maker.random.between(9, 14) * MS);
    let each = if maker.sick { each } else { 20 * US };
    let work = maker.coroutine(vec![Op::Compute(about(each))]);
    let pause = Op::Await(crate::program::Awaiting::Sleep(about(1500 * MS)));
    let start = Op::Repeat(many as u32, bare(vec![Op::Spawn(work)]));
    maker.task_round(vec![pause, start]);
    let function = maker.coroutine(Vec::new());
    let ill = Ill::own(maker, function, "event-loop-blocked", host);
    let places = vec![maker.name(work)];
    Ill { every: true, places, ..ill }
}

/// Long work on a loop, on a CPU that others want as well.
pub fn loop_starved(maker: &mut Maker, mut host: Host) -> Ill {
    host.cpus = 1;
    host.neighbours.clear();
    for _ in 0..2 {
        let busy = Span { mean: 2 * SECOND, spread: 20 };
        host.neighbours.push(Neighbour { busy, idle: Span { mean: 300 * MS, spread: 30 } });
    }
    let length = maker.random.between(130, 260) * MS;
    let work = if maker.sick { length } else { 100 * US };
    let function = maker.function(vec![Op::Compute(about(work))]);
    Ill::own(maker, function, "event-loop-blocked", host).slow_ms(250)
}

/// A native library whose own threads work while its caller waits for them.
pub fn native_threads(maker: &mut Maker, mut host: Host) -> Ill {
    host.cpus = host.cpus.max(4);
    let threads = maker.random.between(2, 3);
    let library = maker.thing(Thing::Library(threads as u32));
    let length = if maker.sick { maker.trouble() } else { 100 * US };
    let function = maker.function(vec![Op::Parallel(library, about(length * threads))]);
    let ill = Ill::own(maker, function, "cpu", host);
    let places = vec![maker.name(function), "collect".to_owned()];
    Ill { places, ..ill }
}
