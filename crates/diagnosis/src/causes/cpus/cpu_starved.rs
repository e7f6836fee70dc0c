//! cpu-starved: the thread was runnable and got no CPU.
//!
//! Signature: preempted by switch records, or run delay of schedstat, and it was not the cgroup's
//! quota (`cpu_throttled`). Inside of work that is long by itself it is that work's (`contention`).
//! The culprit is the thread of this process that ran instead, where its threads took most of the
//! CPUs.
//!
//! Quotes: run delay; the thread that ran instead. Sure: switch records show that it was preempted
//! and when it came back; unsure: times are estimates, or no thread of this process took the CPUs.

use analysis::timeline::{Segment, State};

use crate::cause::Cause;
use crate::causes::grounds::Grounds;
use crate::causes::rule::{self, Described, Row, Rule};
use crate::claim::Claim;
use crate::context::Context;
use crate::ended_by::one_wait::cpu_user;

pub const RULE: Rule = Rule { id: "cpu-starved", grounds: Grounds::State, claim };
pub const ROW: Row = Row { sentence, advice };

const ADVICE: &str = "Give the service more CPU, or find what else runs on these CPUs.";

/// Where it was this process that took the CPUs.
const ADVICE_OWN: &str =
    "Do that work in another process, at a lower priority, or in fewer threads than there are CPUs.";

fn claim(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Claim> {
    if segment.state != State::Ready {
        return None;
    }
    let blocker = cpu_user::of(cx, segment);
    let own = Claim::of(Cause::CpuStarved, segment);
    Some(Claim { seen: segment.exact, blocker, ..own })
}

fn advice(d: &Described<'_>) -> &'static str {
    match d.culprit {
        Some(_) => ADVICE_OWN,
        None => ADVICE,
    }
}

fn sentence(d: &Described<'_>) -> String {
    let time = d.time();
    let starved = match d.place {
        Some(_) => format!("{} could have run for {time} but no CPU was free", rule::at(d.place)),
        None => {
            format!("requests could have run for {time} but no CPU was free, wherever they were")
        }
    };
    match (d.culprit, d.culprit_threads) {
        (Some(_), 2..) => format!("{starved}: {} ran in {} threads", d.blamed(), d.culprit_threads),
        (Some(_), _) => format!("{starved}: {} ran in another thread", d.blamed()),
        (None, _) => starved,
    }
}
