//! Defects that keep requests from being taken up: no request is open meanwhile, so nothing is slow
//! as far as the recorder knows, until the cause is over.

use super::ill::Ill;
use crate::program::maker::Maker;
use crate::program::{about, Host, Native, Op, Outside, MS, US};

fn sleep(length: u64) -> Op {
    Op::Wait(Outside::Sleep, about(length), String::new())
}

/// A thread that publishes something large now and then: `what` keeps the GIL. So few requests come
/// that hardly one is open when it begins; all that arrive meanwhile begin behind it. Threads that
/// tick want the GIL, too, and have something new all the time.
fn publisher(maker: &mut Maker, host: Host, what: Op) -> Ill {
    let collect = Op::Compute(about(2 * MS));
    let sick = maker.sick;
    let body = if sick { vec![collect, what] } else { vec![collect] };
    let holder = maker.function(body);
    let pause = sleep(maker.random.between(1200, 1900) * MS);
    maker.round(vec![pause, Op::Call(holder)]);
    for _ in 0..maker.random.between(2, 6) {
        let every = maker.random.between(8, 40) * MS;
        maker.round(vec![sleep(every), Op::Compute(about(60 * US))]);
    }
    let victim = maker.function(Vec::new());
    let (rate, serving) = (maker.random.between(8, 14), maker.random.between(8, 14) as u32);
    let ill = Ill::other(maker, victim, holder, "gil-wait", host).nowhere();
    Ill { rate: Some(rate), serving: Some(serving), ..ill }
}

/// One long call of C code that keeps the GIL: `orjson.dumps` of something large.
pub fn gil_publisher(maker: &mut Maker, host: Host) -> Ill {
    let length = maker.trouble();
    publisher(maker, host, Op::Native(about(length), Native::Keeps))
}

/// C code that blocks with the GIL in hand, which keeps no CPU busy: a driver reads from a device.
pub fn gil_asleep(maker: &mut Maker, host: Host) -> Ill {
    let length = maker.trouble();
    publisher(maker, host, Op::Native(about(length), Native::Blocks))
}
