//! Defects whose parts mislead: locks that several have at a time or ask for again and again,
//! permits that are never given back, calls in a loop with work between them, and programs with
//! two defects.

use super::ill::Ill;
use super::{others, own};
use crate::program::maker::{bare, Maker};
use crate::program::{about, Answer, Host, Op, Outside, Thing, MS, US};

const PEER: &str = "tcp 127.0.0.1:5432";

fn sleep(length: u64) -> Op {
    Op::Wait(Outside::Sleep, about(length), String::new())
}

fn pause(maker: &mut Maker) -> Op {
    sleep(maker.random.between(1200, 1900) * MS)
}

fn quick() -> Vec<Op> {
    vec![Op::Compute(about(20 * US))]
}

/// A function that lasts while others wait for what its thread has.
fn holder(maker: &mut Maker) -> usize {
    let length = if maker.sick { maker.trouble() } else { 100 * US };
    maker.function(vec![sleep(length)])
}

/// A read-write lock that is read for long: a writer waits for its reader, and requests, which
/// read, wait behind the writer.
pub fn shared_reader(maker: &mut Maker, host: Host) -> Ill {
    let table = maker.thing(Thing::ReadWrite);
    let holder = holder(maker);
    let round = vec![pause(maker), Op::Reading(table, bare(vec![Op::Call(holder)]))];
    maker.round(round);
    maker.round(vec![sleep(30 * MS), Op::Writing(table, bare(quick()))]);
    let victim = maker.function(vec![Op::Reading(table, bare(quick()))]);
    Ill::other(maker, victim, holder, "lock-wait", host)
}

/// A read-write lock that is written for long, while requests read.
pub fn shared_writer(maker: &mut Maker, host: Host) -> Ill {
    let table = maker.thing(Thing::ReadWrite);
    let holder = holder(maker);
    let round = vec![pause(maker), Op::Writing(table, bare(vec![Op::Call(holder)]))];
    maker.round(round);
    let victim = maker.function(vec![Op::Reading(table, bare(quick()))]);
    Ill::other(maker, victim, holder, "lock-wait", host)
}

/// An embedded database whose lock a background transaction keeps.
pub fn database_busy(maker: &mut Maker, host: Host) -> Ill {
    let database = maker.thing(Thing::Database);
    let holder = holder(maker);
    let round = vec![pause(maker), Op::Transaction(database, bare(vec![Op::Call(holder)]))];
    maker.round(round);
    let victim = maker.function(vec![Op::Transaction(database, bare(quick()))]);
    Ill::other(maker, victim, holder, "lock-wait", host)
}

/// Permits that a thread takes and never gives back: in the end all requests run into their time
/// limit.
pub fn permits_leaked(maker: &mut Maker, host: Host) -> Ill {
    let count = maker.random.between(1, 3);
    let permits = maker.thing(Thing::Semaphore(count as u32));
    let take = Op::Take(permits);
    let leak = if maker.sick { vec![take] } else { vec![take, Op::GiveBack(permits)] };
    let leak = maker.function(leak);
    let soon = sleep(maker.random.between(500, 900) * MS);
    let over = Op::Forever(bare(vec![sleep(400 * MS)]));
    maker.round(vec![Op::Repeat(count as u32, bare(vec![soon, Op::Call(leak)])), over]);
    let limit = Some(about(maker.random.between(230, 300) * MS));
    let victim = maker.function(vec![Op::ByHand(permits, limit, bare(quick()))]);
    let ill = Ill::own(maker, victim, "pool-wait", host);
    Ill { every: true, ..ill }.accepting(&["deadlock-timeout"])
}

/// A statement for each row, and work on each answer: the calls are most of it.
pub fn calls_and_work(maker: &mut Maker, host: Host) -> Ill {
    let (times, length) = (maker.random.between(20, 45), maker.trouble() + 120 * MS);
    let ask = Op::Wait(Outside::Answer, about(length * 7 / 10 / times), PEER.to_owned());
    let work = Op::Compute(about(length * 3 / 10 / times));
    let times = if maker.sick { times as u32 } else { 1 };
    let ask = maker.function(vec![ask]);
    let function = maker.function(vec![Op::Repeat(times, bare(vec![Op::Call(ask), work]))]);
    let mut ill = Ill::own(maker, function, "downstream-wait", host);
    ill.places.push(maker.name(ask));
    ill.answer.also = vec![Answer {
        cause: "cpu".to_owned(),
        places: vec![maker.name(function)],
        ..Answer::default()
    }];
    ill
}

type Make = fn(&mut Maker, Host) -> Ill;

/// Two defects of one program: of the request's own thread in some requests, and of another thread.
pub fn two_at_once(maker: &mut Maker, host: Host) -> Ill {
    let own: [Make; 6] = [
        own::sleep_nap,
        own::downstream_ask,
        own::cpu_loop,
        own::dns_slow,
        own::disk_read,
        own::downstream_loop,
    ];
    let of_others: [Make; 5] = [
        others::lock_sleep,
        others::lock_peer,
        others::pool_queue,
        others::pool_permits,
        others::gc_elsewhere,
    ];
    let (first, second) = (*maker.random.pick(&own), *maker.random.pick(&of_others));
    let one = first(maker, host.clone());
    let other = second(maker, host);
    let (of, at) = (maker.random.between(20, 34), maker.random.below(20));
    let rare = Op::Every { of, at, body: bare(vec![one.op]) };
    let both = maker.function(vec![rare, other.op]);
    let slow_ms = one.slow_ms.min(other.slow_ms);
    let also = Answer { places: one.places, ..one.answer };
    let answer = Answer { also: vec![also], ..other.answer };
    Ill {
        op: Op::Call(both),
        answer,
        every: true,
        slow_ms,
        ..Ill::own(maker, both, "", other.host)
    }
    .at(other.places)
}
