//! cpu: the request's own thread computed.
//!
//! Signature: on a CPU by switch records (or, without them, by the thread's CPU clock), stacks from
//! the samples. Or a native library waited for threads of its own, which ran: its work, wherever
//! it did it. Sure: nobody else is needed to explain it. Work that alone is over the limit has
//! the time without a CPU in it too (`contention`).
//!
//! Quotes: the kernel's share, page faults and storage traffic around the longest interval, calls
//! in a loop, native code under the place. Unsure: no sample saw most of it, or for most of it
//! there was no CPU.

use analysis::thresholds;
use analysis::timeline::{Segment, State};

use crate::cause::Cause;
use crate::causes::grounds::Grounds;
use crate::causes::rule::{self, Described, Row, Rule};
use crate::claim::Claim;
use crate::context::Context;
use crate::facts::library_threads;
use analysis::readable::ms_text;

pub const RULE: Rule = Rule { id: "cpu", grounds: Grounds::State, claim };
pub const ROW: Row = Row { sentence, advice: |_| ADVICE };

/// A library's native code waits for threads of its own, which run: its work.
pub const OF_LIBRARY: Rule =
    Rule { id: "cpu-of-library-threads", grounds: Grounds::Helpers, claim: of_library };

const ADVICE: &str =
    "Profile this function with the input of the slow requests; bound the input or cache the result.";

fn claim(_: &Context<'_>, segment: &Segment<'_>) -> Option<Claim> {
    (segment.state == State::Run).then(|| Claim::of(Cause::Cpu, segment))
}

fn of_library(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let own = Claim::of(Cause::Cpu, segment);
    library_threads::run_for(cx, segment).then_some(own)
}

fn sentence(d: &Described<'_>) -> String {
    let (ran_ms, place) = (d.mean_ms - d.starved_ms, rule::at(d.place));
    // On a crowded machine it takes longer than it computes: both are reported.
    let crowded = match d.starved_ms >= thresholds::doubtful_part() * d.mean_ms {
        true => format!(
            ", which took {}: for {} of that it got no CPU",
            ms_text(d.mean_ms),
            ms_text(d.starved_ms)
        ),
        false => String::new(),
    };
    let took = if crowded.is_empty() { d.time() } else { ms_text(ran_ms) };
    let kernel = match d.kernel_part {
        Some(part) if part > thresholds::half() => ", most of it in the kernel",
        _ => "",
    };
    format!("{place} computed for {took}{kernel}{}{crowded}", rule::repeats_text(d))
}
