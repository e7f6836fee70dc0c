//! What a thread did, in words: "slept", "waited for a peer", "computed".

use analysis::timeline::{Segment, State};

use crate::context::Context;
use crate::facts::kernel_time::{self};
use crate::facts::{children, imports, pools};

/// Of a thread that imported.
pub const LOADED: &str = "loaded a module";

/// Of a thread that could have run.
pub(crate) const NO_CPU: &str = "got no CPU";

/// Of a time that no sample shows.
pub(crate) const NOT_SEEN: &str = "did something that was not seen";

/// What a thread did, in words.
pub fn words(cx: &Context<'_>, segment: &Segment<'_>) -> &'static str {
    use format::wait::WaitKind as W;
    if matches!(segment.state, State::Run | State::Ready)
        && imports::importer(cx, segment.stack()).is_some()
    {
        return LOADED;
    }
    if children::awaits_child(cx, segment) {
        return "waited for a child process";
    }
    match (segment.state, segment.wait()) {
        (State::Run, _) => kernel_time::kernel_work(cx, segment).unwrap_or("computed"),
        (State::Ready, _) => NO_CPU,
        (State::Wait, W::Sleep) => "slept",
        (State::Wait, W::Futex) => {
            pools::doing(cx, segment.stack()).unwrap_or("waited for another lock")
        }
        (State::Wait, W::Gil) => "waited for the GIL",
        (State::Wait, W::SocketRead | W::SocketWrite | W::Poll | W::Connect) => "waited for a peer",
        (State::Wait, W::FileRead | W::FileWrite | W::FileSync | W::FileOpen) => {
            "waited for the disk"
        }
        (State::Wait, W::PipeRead | W::PipeWrite | W::TtyWrite) => "waited on a pipe",
        _ => NOT_SEEN,
    }
}
