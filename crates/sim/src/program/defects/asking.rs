//! Defects of waits with a time limit: in slices, in vain, and half seen.

use super::ill::Ill;
use crate::program::maker::{bare, Maker};
use crate::program::{about, Asked, Host, Op, Outside, Thing, MS, SECOND, SITE, US};

const PEER: &str = "tcp 127.0.0.1:5432";

fn sleep(length: u64) -> Op {
    Op::Wait(Outside::Sleep, about(length), String::new())
}

/// Steps of the sick program; none in its twin.
fn late(maker: &Maker, what: Op) -> Vec<Op> {
    maker.sick.then_some(what).into_iter().collect()
}

/// A client library that polls its socket: one answer comes late, after many time limits.
pub fn slices_socket(maker: &mut Maker, host: Host) -> Ill {
    let length = if maker.sick { maker.trouble() } else { 600 * US };
    let limit = about(maker.random.between(50, 100) * MS);
    let of = Asked::Answer(about(length), PEER.to_owned());
    let client = maker.function(vec![Op::Ask { of, limit, again: true }]);
    maker.functions[client].file = format!("{SITE}/psycopg/waiting.py");
    let function = maker.function(vec![Op::Call(client)]);
    Ill::own(maker, function, "downstream-wait", host)
}

/// An Event that is asked for again and again, and set late.
pub fn slices_event(maker: &mut Maker, host: Host) -> Ill {
    let ready = maker.thing(Thing::Event);
    let length = maker.trouble();
    let limit = about(maker.random.between(40, 90) * MS);
    let what = late(maker, sleep(length));
    let slow = maker.function(what);
    let tick = bare(vec![Op::EventSet(ready), sleep(3 * MS)]);
    let times = maker.random.between(250, 400) as u32;
    maker.round(vec![Op::Repeat(times, tick), Op::Call(slow)]);
    let ask = Op::Ask { of: Asked::Notice(ready), limit, again: true };
    let victim = maker.function(vec![ask]);
    Ill::other(maker, victim, slow, "lock-wait", host).accepting(&["sleep"])
}

/// A queue of free items that is asked for again and again while another thread has them all.
pub fn slices_queue(maker: &mut Maker, host: Host) -> Ill {
    let free = maker.thing(Thing::Queue { items: 1, room: None });
    let limit = about(maker.random.between(40, 90) * MS);
    let length = if maker.sick { maker.trouble() } else { MS };
    let holder = maker.function(vec![sleep(length)]);
    let pause = sleep(maker.random.between(1200, 1900) * MS);
    maker.round(vec![pause, Op::Get(free), Op::Call(holder), Op::Put(free)]);
    let ask = Op::Ask { of: Asked::Item(free), limit, again: true };
    let victim = maker.function(vec![ask, Op::Compute(about(40 * US)), Op::Put(free)]);
    Ill::other(maker, victim, holder, "pool-wait", host)
}

/// A Condition that nobody gives notice of until the time limit.
pub fn notice_lost(maker: &mut Maker, host: Host) -> Ill {
    let done = maker.thing(Thing::Condition);
    let limit = about(maker.trouble());
    let ask = Op::Ask { of: Asked::Notice(done), limit, again: false };
    let what = late(maker, ask);
    let function = maker.function(what);
    Ill::own(maker, function, "deadlock-timeout", host)
}

/// An Event that others get notice of at the same place; its notifier stops for longer than the
/// time limit.
pub fn notice_stopped(maker: &mut Maker, host: Host) -> Ill {
    let ready = maker.thing(Thing::Event);
    let limit = about(maker.random.between(230, 300) * MS);
    let length = maker.random.between(1000, 1400) * MS;
    let what = late(maker, sleep(length));
    let slow = maker.function(what);
    let tick = bare(vec![Op::EventSet(ready), sleep(3 * MS)]);
    let times = maker.random.between(150, 250) as u32;
    maker.round(vec![Op::Repeat(times, tick), Op::Call(slow)]);
    let ask = Op::Ask { of: Asked::Notice(ready), limit, again: false };
    let victim = maker.function(vec![ask]);
    let ill = Ill::own(maker, victim, "deadlock-timeout", host);
    Ill { every: true, ..ill }.accepting(&["lock-wait"])
}

/// Requests that still sleep when the capture is saved.
pub fn half_sleep(maker: &mut Maker, host: Host) -> Ill {
    let what = late(maker, sleep(30 * SECOND));
    let function = maker.function(what);
    Ill::own(maker, function, "sleep", host)
}

/// Requests that still wait for their peer then.
pub fn half_answer(maker: &mut Maker, host: Host) -> Ill {
    let ask = Op::Wait(Outside::Answer, about(30 * SECOND), PEER.to_owned());
    let what = late(maker, ask);
    let function = maker.function(what);
    Ill::own(maker, function, "downstream-wait", host)
}
