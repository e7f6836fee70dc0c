//! One thread that runs on, sampled again and again: which stacks were shown, how often, whether
//! two readings had agreed, and whether the thread ran meanwhile.

use super::{answer, find, reader};
use samplers::python_stacks::CodeId;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_int};
use std::time::Duration;

/// Frames of each stack that are compared, from the innermost on.
const FRAMES: usize = 6;

/// "still", "settled", "moving" or "torn", and the innermost frames.
type Shown = (&'static str, Vec<(CodeId, u32)>);

/// Samples thread `tid` `count` times, `pause_us` apart. Writes a line for each different stack:
/// how often, "settled", "moving" or "torn", or "still" if the thread did not run meanwhile; then
/// name and line of each frame, by tabs.
#[no_mangle]
pub extern "C" fn probe_moving(
    tid: u32,
    count: u32,
    pause_us: u32,
    out: *mut c_char,
    capacity: usize,
) -> c_int {
    let mut guard = reader();
    let Some(stacks) = guard.as_mut() else { return answer("not attached", out, capacity) };
    let Some((thread, _)) = find(stacks, tid) else { return answer("no thread", out, capacity) };
    let mut seen: BTreeMap<Shown, u32> = BTreeMap::new();
    let mut frames = Vec::new();
    for _ in 0..count {
        stacks.begin_pass();
        let before = sys::task::cpu_ns(tid);
        let read = stacks.stack(&thread, 512, &mut frames);
        let kind = match read {
            _ if sys::task::cpu_ns(tid) == before => "still",
            Ok(outcome) if outcome.settled => "settled",
            Ok(_) => "moving",
            Err(_) => "torn",
        };
        let innermost = frames.iter().take(FRAMES).map(|frame| (frame.code, frame.line));
        *seen.entry((kind, innermost.collect())).or_default() += 1;
        std::thread::sleep(Duration::from_micros(pause_us.into()));
    }
    let mut text = String::new();
    for ((kind, frames), times) in seen {
        text += &format!("{times}\t{kind}");
        for (code, line) in frames {
            let name = stacks.code(code).map_or("?", |code| &code.qualname);
            text += &format!("\t{}\t{line}", name.rsplit('.').next().unwrap_or(name));
        }
        text.push('\n');
    }
    answer(&text, out, capacity)
}
