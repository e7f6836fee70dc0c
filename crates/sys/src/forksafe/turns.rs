//! Long work of a background thread, done in short turns while other threads want its CPU.
//!
//! How it works: a thread that copies for milliseconds keeps its CPU until the scheduler's next
//! tick (1-10 ms) though another thread waits for it. `Turns::rest`, called between small parts of
//! the work, gives the CPU up after `TURN_NS` if more threads want to run than there are CPUs, and
//! sleeps as long as the turn was. A thread that was asleep gets a CPU back at once: it has used
//! less than its share.
//!
//! | read | emits | from | cost |
//! | --- | --- | --- | --- |
//! | /proc/loadavg, its fourth field | threads of the machine that run or want to | 2.6 | 1-2 us |
//! | /proc/self/task/TID/schedstat | time in which this thread got no CPU | 2.6.23 | 0.6-1.2 us |
//!
//! What it promises: with a free CPU it does not rest. It rests no more once all rests together
//! took `most_ns`. What it does not: where the machine's load is hidden (no /proc/loadavg), or
//! threads share fewer CPUs than the machine has, it learns of others only by its own delay, after
//! the first one.

use crate::kept::Kept;
use crate::task::TaskReader;
use crate::{clock, thread};

/// Longest time on the CPU before a rest.
const TURN_NS: u64 = 80_000;
/// Longest rest, after a turn that a slow disk or another thread made long.
const LONGEST_NS: u64 = 4 * TURN_NS;
/// A delay in one turn that shows that others want the CPU, and for how long it counts.
const DELAY_NS: u64 = 1_000_000;
const DELAY_COUNTS_NS: u64 = 20_000_000;

/// The state of one long work on the calling thread.
pub struct Turns {
    load: Option<Kept>,
    own: Option<TaskReader>,
    cpus: u64,
    since_ns: u64,
    left_ns: u64,
    delay_ns: u64,
    crowded_until_ns: u64,
}

impl Turns {
    /// For work that begins now and may be made longer by `most_ns`.
    pub fn new(most_ns: u64) -> Turns {
        let mut turns = Turns {
            load: Kept::open("/proc/loadavg").ok(),
            own: TaskReader::open(thread::tid()).ok(),
            cpus: online(),
            since_ns: clock::now_ns(),
            left_ns: most_ns,
            delay_ns: 0,
            crowded_until_ns: 0,
        };
        turns.delay_ns = turns.own_delay();
        turns
    }

    /// Call it between two parts of the work.
    pub fn rest(&mut self) {
        let now = clock::now_ns();
        let turn_ns = now.saturating_sub(self.since_ns);
        if turn_ns < TURN_NS || self.left_ns == 0 {
            return;
        }
        if self.is_crowded(now) {
            thread::pause(turn_ns.min(LONGEST_NS));
            // Its real length: where other threads wait too, a rest may be longer than requested.
            self.left_ns = self.left_ns.saturating_sub(clock::now_ns().saturating_sub(now));
        }
        self.since_ns = clock::now_ns();
    }

    fn is_crowded(&mut self, now: u64) -> bool {
        let delay_ns = self.own_delay();
        if delay_ns.saturating_sub(self.delay_ns) > DELAY_NS {
            self.crowded_until_ns = now + DELAY_COUNTS_NS;
        }
        self.delay_ns = delay_ns;
        now < self.crowded_until_ns || self.runnable().is_some_and(|runnable| runnable > self.cpus)
    }

    fn own_delay(&mut self) -> u64 {
        self.own.as_mut().and_then(|own| own.schedstat().ok()).map_or(0, |s| s.run_delay_ns)
    }

    fn runnable(&self) -> Option<u64> {
        let mut buf = [0; 64];
        let text = self.load.as_ref()?.read(&mut buf).ok()?;
        runnable(text)
    }
}

/// CPUs of the whole machine, as the count beside them is.
fn online() -> u64 {
    // SAFETY: sysconf takes a number and touches no memory of ours.
    let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    u64::try_from(count).unwrap_or(1)
}

/// Of "0.12 0.34 0.56 3/150 4711".
fn runnable(text: &[u8]) -> Option<u64> {
    let field = text.split(|b| *b == b' ').nth(3)?;
    let (count, _) = std::str::from_utf8(field).ok()?.split_once('/')?;
    count.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_end_when_their_time_is_used_up() {
        let mut turns = Turns { crowded_until_ns: u64::MAX, ..Turns::new(3 * TURN_NS) };
        let mut rests = 0;
        while turns.left_ns > 0 {
            let left_ns = turns.left_ns;
            turns.rest();
            rests += u32::from(turns.left_ns < left_ns);
        }
        assert!((1..=3).contains(&rests), "{rests}");
        turns.rest();
        assert_eq!(turns.left_ns, 0);
    }

    #[test]
    fn with_a_cpu_to_spare_there_is_no_rest() {
        let mut turns = Turns { cpus: u64::MAX, own: None, ..Turns::new(u64::MAX) };
        let until_ns = clock::now_ns() + 5 * TURN_NS;
        while clock::now_ns() < until_ns {
            turns.rest();
        }
        assert_eq!(turns.left_ns, u64::MAX);
    }

    #[test]
    fn the_kernels_line_is_read_and_no_other() {
        assert_eq!(runnable(b"0.12 0.34 0.56 3/150 4711\n"), Some(3));
        for broken in
            ["", "0.12 0.34", "0.12 0.34 0.56 x/150 1", "0.12 0.34 0.56 3", "a b c \u{7f}/ d"]
        {
            assert_eq!(runnable(broken.as_bytes()), None, "{broken:?}");
        }
        let own = Turns::new(0);
        assert!(own.runnable().is_none_or(|runnable| runnable >= 1));
    }
}
