//! Defects of event loops: a task awaits too long, or something keeps the loop.

use super::ill::Ill;
use crate::program::maker::{bare, Maker};
use crate::program::{about, Awaiting, Host, Op, Outside, Thing, MS, US};

const PEER: &str = "tcp 127.0.0.1:5432";

fn guilty(maker: &mut Maker, sick: Vec<Op>, healthy: Vec<Op>) -> usize {
    let body = if maker.sick { sick } else { healthy };
    maker.coroutine(body)
}

fn sleep(length: u64) -> Op {
    Op::Await(Awaiting::Sleep(about(length)))
}

/// A task that keeps what requests await.
fn holder(maker: &mut Maker, hold: impl Fn(Op) -> Vec<Op>) -> usize {
    let length = if maker.sick { maker.trouble() } else { 100 * US };
    let holder = maker.coroutine(vec![sleep(length)]);
    let pause = sleep(maker.random.between(1200, 1900) * MS);
    let round = [vec![pause], hold(Op::Call(holder))].concat();
    maker.task_round(round);
    holder
}

pub fn task_sleep(maker: &mut Maker, host: Host) -> Ill {
    let length = maker.trouble();
    let function = guilty(maker, vec![sleep(length)], vec![sleep(600 * US)]);
    Ill::own(maker, function, "sleep", host)
}

pub fn task_stream(maker: &mut Maker, host: Host) -> Ill {
    let answer = |length| Op::Await(Awaiting::Answer(about(length), PEER.to_owned()));
    let length = maker.trouble();
    let function = guilty(maker, vec![answer(length)], vec![answer(600 * US)]);
    Ill::own(maker, function, "downstream-wait", host)
}

pub fn task_connect(maker: &mut Maker, host: Host) -> Ill {
    let connect = |length| Op::Await(Awaiting::Connect(about(length), PEER.to_owned()));
    let length = maker.trouble();
    let function = guilty(maker, vec![connect(length)], vec![connect(600 * US)]);
    Ill::own(maker, function, "connect", host)
}

pub fn task_lock(maker: &mut Maker, host: Host) -> Ill {
    let gate = maker.thing(Thing::TaskLock);
    let holder = holder(maker, |call| vec![Op::AsyncWith(gate, bare(vec![call]))]);
    let work = bare(vec![Op::Compute(about(20 * US))]);
    let victim = maker.coroutine(vec![Op::AsyncWith(gate, work)]);
    Ill::other(maker, victim, holder, "lock-wait", host)
}

pub fn task_permits(maker: &mut Maker, host: Host) -> Ill {
    let permits = maker.thing(Thing::TaskSemaphore(1));
    let holder = holder(maker, |call| vec![Op::AsyncWith(permits, bare(vec![call]))]);
    let work = bare(vec![Op::Compute(about(20 * US))]);
    let victim = maker.coroutine(vec![Op::AsyncWith(permits, work)]);
    Ill::other(maker, victim, holder, "pool-wait", host).accepting(&["lock-wait"])
}

pub fn task_queue(maker: &mut Maker, host: Host) -> Ill {
    let free = maker.thing(Thing::TaskQueue(2));
    let get = Op::Await(Awaiting::Get(free));
    let holder =
        holder(maker, |call| vec![get.clone(), get.clone(), call, Op::Put(free), Op::Put(free)]);
    let victim = maker.coroutine(vec![get.clone(), Op::Compute(about(30 * US)), Op::Put(free)]);
    Ill::other(maker, victim, holder, "pool-wait", host)
}

pub fn task_executor(maker: &mut Maker, host: Host) -> Ill {
    let size = maker.random.between(1, 3) as u32;
    let crew = maker.thing(Thing::Executor(size));
    let length = if maker.sick { maker.trouble() } else { MS };
    let nap = Op::Wait(Outside::Sleep, about(length), String::new());
    let holder = maker.function(vec![nap]);
    let quick = maker.function(vec![Op::Compute(about(30 * US))]);
    let pause = sleep(maker.random.between(1200, 1900) * MS);
    let fill = Op::Submit { to: crew, function: holder, wait: false };
    maker.task_round(vec![pause, Op::Repeat(size, bare(vec![fill]))]);
    let victim = maker.coroutine(vec![Op::Await(Awaiting::Executor(crew, quick))]);
    Ill::other(maker, victim, holder, "pool-wait", host)
}

/// A call that blocks in a coroutine of the request's own.
fn blocked(maker: &mut Maker, host: Host, call: Op) -> Ill {
    let body = if maker.sick { vec![call] } else { vec![Op::Compute(about(100 * US))] };
    let function = maker.function(body);
    Ill::own(maker, function, "event-loop-blocked", host)
}

pub fn blocked_sleep(maker: &mut Maker, host: Host) -> Ill {
    let length = maker.trouble();
    blocked(maker, host, Op::Wait(Outside::Sleep, about(length), String::new()))
}

pub fn blocked_cpu(maker: &mut Maker, host: Host) -> Ill {
    let length = maker.trouble();
    blocked(maker, host, Op::Compute(about(length)))
}
