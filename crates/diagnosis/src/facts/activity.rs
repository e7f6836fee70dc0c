//! What a thread did in a segment: slept, waited for a peer, computed.

use analysis::timeline::{Segment, State};

use crate::context::Context;
use crate::doing::Doing;
use crate::facts::{children, imports, kernel_time, pools};

/// What a thread did.
pub fn of(cx: &Context<'_>, segment: &Segment<'_>) -> Doing {
    use format::wait::WaitKind as W;
    if matches!(segment.state, State::Run | State::Ready)
        && imports::importer(cx, segment.stack()).is_some()
    {
        return Doing::LoadedModule;
    }
    if children::awaits_child(cx, segment) {
        return Doing::Child;
    }
    match (segment.state, segment.wait()) {
        (State::Run, _) => kernel_time::kernel_work(cx, segment).unwrap_or(Doing::Computed),
        (State::Ready, _) => Doing::NoCpu,
        (State::Wait, W::Sleep) if cx.frames.asks_for_a_lock(segment.stack()) => Doing::AnotherLock,
        (State::Wait, W::Sleep) => Doing::Slept,
        (State::Wait, W::Futex) => pools::doing(cx, segment.stack()).unwrap_or(Doing::AnotherLock),
        (State::Wait, W::Gil) => Doing::Gil,
        (State::Wait, W::SocketRead | W::SocketWrite | W::Poll | W::Connect) => Doing::Peer,
        (State::Wait, W::FileRead | W::FileWrite | W::FileSync | W::FileOpen) => Doing::Disk,
        (State::Wait, W::PipeRead | W::PipeWrite | W::TtyWrite) => Doing::Pipe,
        _ => Doing::NotSeen,
    }
}
