//! Defects in which another thread or process is to blame, or the whole process is stopped.

use super::ill::Ill;
use crate::program::maker::{bare, Maker};
use crate::program::{about, Host, Native, Neighbour, Op, Outside, Span, Thing, MS, SECOND, US};

fn sleep(length: u64) -> Op {
    Op::Wait(Outside::Sleep, about(length), String::new())
}

/// The pause of a holder between two rounds.
fn pause(maker: &mut Maker) -> Op {
    sleep(maker.random.between(1200, 1900) * MS)
}

/// A thread that keeps what requests need while it does `what`; `hold` puts that around its call.
fn holder(maker: &mut Maker, what: Vec<Op>, hold: impl Fn(Op) -> Op) -> usize {
    let body = if maker.sick { what } else { vec![Op::Compute(about(100 * US))] };
    let holder = maker.function(body);
    let round = vec![pause(maker), hold(Op::Call(holder))];
    maker.round(round);
    holder
}

/// A lock that a thread keeps while it does `what`.
fn held(maker: &mut Maker, host: Host, what: Vec<Op>) -> Ill {
    let kind = maker.random.pick(&[Thing::Lock, Thing::RLock]).clone();
    let gate = maker.thing(kind);
    let holder = holder(maker, what, |call| Op::With(gate, bare(vec![call])));
    let work = bare(vec![Op::Compute(about(20 * US))]);
    let victim = maker.function(vec![Op::With(gate, work)]);
    Ill::other(maker, victim, holder, "lock-wait", host)
}

pub fn lock_sleep(maker: &mut Maker, host: Host) -> Ill {
    let length = maker.trouble();
    held(maker, host, vec![sleep(length)])
}

pub fn lock_digest(maker: &mut Maker, host: Host) -> Ill {
    let length = maker.trouble() / 10;
    let digest = Op::Native(about(length), Native::Releases);
    held(maker, host, vec![Op::Repeat(10, bare(vec![digest]))])
}

pub fn lock_peer(maker: &mut Maker, host: Host) -> Ill {
    let length = maker.trouble();
    let peer = "tcp 127.0.0.1:5432".to_owned();
    held(maker, host, vec![Op::Wait(Outside::Answer, about(length), peer)])
}

pub fn lock_by_hand(maker: &mut Maker, host: Host) -> Ill {
    let gate = maker.thing(Thing::Lock);
    let length = maker.trouble();
    let holder =
        holder(maker, vec![sleep(length)], |call| Op::ByHand(gate, None, bare(vec![call])));
    let work = bare(vec![Op::Compute(about(20 * US))]);
    let victim = maker.function(vec![Op::ByHand(gate, None, work)]);
    Ill::other(maker, victim, holder, "lock-wait", host)
}

pub fn lock_chain(maker: &mut Maker, host: Host) -> Ill {
    // The holder of the lock waits for another lock, whose holder sleeps.
    let (outer, inner) = (maker.thing(Thing::Lock), maker.thing(Thing::RLock));
    let length = maker.trouble();
    let last = holder(maker, vec![sleep(length)], |call| Op::With(inner, bare(vec![call])));
    let touch = bare(vec![Op::Compute(about(30 * US))]);
    let middle = maker.function(vec![Op::With(inner, touch.clone())]);
    let hold = bare(vec![Op::Call(middle)]);
    maker.round(vec![sleep(15 * MS), Op::With(outer, hold)]);
    let victim = maker.function(vec![Op::With(outer, touch)]);
    Ill::other(maker, victim, last, "lock-wait", host)
}

pub fn lock_convoy(maker: &mut Maker, host: Host) -> Ill {
    // One in a few requests keeps the lock that all need.
    let gate = maker.thing(Thing::Lock);
    let length = if maker.sick { maker.trouble() } else { 100 * US };
    let (of, at) = (maker.random.between(15, 25), maker.random.below(15));
    let slow = maker.function(vec![sleep(length)]);
    let rare = Op::Every { of, at, body: bare(vec![Op::Call(slow)]) };
    let work = bare(vec![Op::Compute(about(20 * US)), rare]);
    let victim = maker.function(vec![Op::With(gate, work)]);
    let ill = Ill::other(maker, victim, slow, "lock-wait", host);
    ill.accepting(&["sleep"])
}

pub fn mailbox(maker: &mut Maker, host: Host) -> Ill {
    // A request hands its work to a thread through a queue, and waits for the answer in another.
    let queue = || Thing::Queue { items: 0, room: None };
    let (asked, answered) = (maker.thing(queue()), maker.thing(queue()));
    let length = maker.trouble();
    let late = maker.sick.then(|| sleep(length)).into_iter().collect();
    let slow = maker.function(late);
    let answer = bare(vec![Op::Get(asked), Op::Compute(about(60 * US)), Op::Put(answered)]);
    let times = maker.random.between(20, 35) as u32;
    maker.round(vec![Op::Repeat(times, answer), Op::Call(slow)]);
    let victim = maker.function(vec![Op::Put(asked), Op::Get(answered)]);
    Ill::other(maker, victim, slow, "pool-wait", host).accepting(&["sleep", "lock-wait"])
}

pub fn event_late(maker: &mut Maker, host: Host) -> Ill {
    // Requests wait for a thread that gives notice often, and now and then does something else.
    let ready = maker.thing(Thing::Event);
    let length = maker.trouble();
    let late = maker.sick.then(|| sleep(length)).into_iter().collect();
    let slow = maker.function(late);
    let tick = bare(vec![Op::EventSet(ready), sleep(3 * MS)]);
    let times = maker.random.between(250, 400) as u32;
    maker.round(vec![Op::Repeat(times, tick), Op::Call(slow)]);
    let victim = maker.function(vec![Op::EventWait(ready)]);
    // What the notifier did instead is as right.
    Ill::other(maker, victim, slow, "lock-wait", host).accepting(&["sleep"])
}

fn interpreter(maker: &mut Maker, host: Host, what: Vec<Op>) -> Ill {
    let holder = holder(maker, what, |call| call);
    let victim = maker.function(Vec::new());
    Ill::other(maker, victim, holder, "gil-wait", host).nowhere()
}

pub fn gil_sort(maker: &mut Maker, host: Host) -> Ill {
    let length = maker.trouble();
    interpreter(maker, host, vec![Op::Native(about(length), Native::Keeps)])
}

pub fn gil_crowd(maker: &mut Maker, host: Host) -> Ill {
    // Several threads compute at a time: each hand-over of the GIL takes 5 ms.
    let (crowd, length) = (maker.random.between(6, 10), maker.random.between(500, 900) * MS);
    let share = Op::Compute(about(length / crowd));
    let compute = maker.function(if maker.sick { vec![share] } else { Vec::new() });
    let victim = maker.function(vec![
        sleep(MS),
        Op::Compute(about(400 * US)),
        sleep(MS),
        Op::Compute(about(400 * US)),
        sleep(MS),
        Op::Compute(about(400 * US)),
        sleep(MS),
        Op::Compute(about(400 * US)),
    ]);
    let start: Vec<Op> = (0..crowd).map(|_| Op::Start(compute)).collect();
    let round = [vec![pause(maker)], start].concat();
    maker.round(round);
    Ill::other(maker, victim, compute, "gil-wait", host).nowhere().slow_ms(120)
}

pub fn gc_elsewhere(maker: &mut Maker, host: Host) -> Ill {
    let length = maker.trouble_of(200, 500);
    let holder = holder(maker, vec![Op::Collect(about(length))], |call| call);
    let victim = maker.function(Vec::new());
    Ill::other(maker, victim, holder, "gc-pause", host).nowhere().slow_ms(120)
}

pub fn fork_elsewhere(maker: &mut Maker, host: Host) -> Ill {
    let length = maker.trouble_of(200, 450);
    let child = Op::Wait(Outside::Child, about(3 * MS), "child process true".to_owned());
    let holder = holder(maker, vec![Op::Fork(about(length)), child], |call| call);
    let victim = maker.function(Vec::new());
    Ill::other(maker, victim, holder, "fork", host).nowhere().slow_ms(120)
}

pub fn pool_workers(maker: &mut Maker, host: Host) -> Ill {
    let size = maker.random.between(1, 3) as u32;
    let crew = maker.thing(Thing::Executor(size));
    let length = if maker.sick { maker.trouble() } else { MS };
    let holder = maker.function(vec![sleep(length)]);
    let quick = maker.function(vec![Op::Compute(about(30 * US))]);
    let fill = Op::Submit { to: crew, function: holder, wait: false };
    let round = vec![pause(maker), Op::Repeat(size, bare(vec![fill]))];
    maker.round(round);
    let victim = maker.function(vec![Op::Submit { to: crew, function: quick, wait: true }]);
    Ill::other(maker, victim, holder, "pool-wait", host)
}

pub fn pool_queue(maker: &mut Maker, host: Host) -> Ill {
    let size = maker.random.between(1, 3) as u32;
    let free = maker.thing(Thing::Queue { items: size, room: None });
    let length = if maker.sick { maker.trouble() } else { MS };
    let holder = maker.function(vec![sleep(length)]);
    let round = vec![
        pause(maker),
        Op::Repeat(size, bare(vec![Op::Get(free)])),
        Op::Call(holder),
        Op::Repeat(size, bare(vec![Op::Put(free)])),
    ];
    maker.round(round);
    let victim = maker.function(vec![Op::Get(free), Op::Compute(about(40 * US)), Op::Put(free)]);
    Ill::other(maker, victim, holder, "pool-wait", host)
}

pub fn pool_permits(maker: &mut Maker, host: Host) -> Ill {
    let permits = maker.thing(Thing::Semaphore(1));
    let length = maker.trouble();
    let holder = holder(maker, vec![sleep(length)], |call| Op::With(permits, bare(vec![call])));
    let work = bare(vec![Op::Compute(about(20 * US))]);
    let victim = maker.function(vec![Op::With(permits, work)]);
    Ill::other(maker, victim, holder, "pool-wait", host).accepting(&["lock-wait"])
}

pub fn pool_room(maker: &mut Maker, host: Host) -> Ill {
    // A bounded queue whose reader stops now and then.
    let (items, room) = (0, Some(maker.random.between(2, 4) as u32));
    let line = maker.thing(Thing::Queue { items, room });
    let length = maker.trouble();
    let stops = maker.sick.then(|| sleep(length)).into_iter().collect();
    let holder = maker.function(stops);
    let take = bare(vec![Op::Get(line), Op::Compute(about(50 * US))]);
    let times = maker.random.between(40, 70) as u32;
    maker.round(vec![Op::Repeat(times, take), Op::Call(holder)]);
    let victim = maker.function(vec![Op::Put(line)]);
    Ill::other(maker, victim, holder, "pool-wait", host)
}

pub fn deadlock(maker: &mut Maker, host: Host) -> Ill {
    let (one, two) = (maker.thing(Thing::Lock), maker.thing(Thing::Lock));
    let limit = about(maker.trouble());
    let ask = |thing| Op::ByHand(thing, Some(limit), Vec::new());
    let holder = maker.function(vec![Op::With(two, bare(vec![sleep(40 * MS), ask(one)]))]);
    let sick =
        vec![Op::Start(holder), Op::With(one, bare(vec![sleep(40 * MS), ask(two)])), Op::JoinLast];
    let victim = if maker.sick { sick } else { Vec::new() };
    let victim = maker.function(victim);
    let ill = Ill::other(maker, victim, holder, "deadlock-timeout", host);
    Ill { every: false, ..ill }
}

/// Nothing is wrong with the program itself.
fn of_the_host(maker: &mut Maker, host: Host, cause: &str) -> Ill {
    let work = if cause == "cpu-starved" { 12 * MS } else { 200 * US };
    let function = maker.function(vec![Op::Compute(about(work))]);
    let ill = Ill::own(maker, function, cause, host).nowhere();
    Ill { every: true, ..ill }
}

pub fn stopped(maker: &mut Maker, mut host: Host) -> Ill {
    let mut at = 1700 * MS;
    while at < 5 * SECOND && maker.sick {
        let length = maker.trouble();
        host.stops.push((at, length));
        at += length + 1700 * MS;
    }
    of_the_host(maker, host, "stopped").slow_ms(250)
}

pub fn throttled(maker: &mut Maker, mut host: Host) -> Ill {
    host.cpus = host.cpus.max(2);
    host.quota_ns = Some(if maker.sick { 10 * MS } else { 100 * MS * u64::from(host.cpus) });
    // Something spends the quota from time to time.
    let spend = maker.random.between(60, 90) * MS;
    let burn = Op::Native(about(spend), Native::Releases);
    let round = vec![pause(maker), burn];
    maker.round(round);
    of_the_host(maker, host, "cpu-throttled").slow_ms(80)
}

pub fn starved(maker: &mut Maker, mut host: Host) -> Ill {
    host.cpus = 1;
    host.neighbours.clear();
    let length = if maker.sick { maker.trouble() } else { MS };
    let crowd = maker.random.between(16, 26);
    for _ in 0..crowd {
        let busy = Span { mean: length / 2, spread: 20 };
        host.neighbours.push(Neighbour { busy, idle: Span { mean: 2 * SECOND, spread: 5 } });
    }
    of_the_host(maker, host, "cpu-starved").slow_ms(100)
}
