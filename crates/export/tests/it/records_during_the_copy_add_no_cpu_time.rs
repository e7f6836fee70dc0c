//! Records are written while the ring is copied. Rows later than the begin of the copy give no CPU
//! time to threads without records from then on: those were asleep and have not woken up.

use crate::common;

use capture::read::{EventRow, OffCpu};
use common::{text, LOOP, MS, T0, WORKER};
use export::{Format, Value};

#[test]
fn a_row_behind_the_end_lengthens_no_run() {
    let mut made = common::capture(true);
    // The worker went to sleep 10 ms before the copy began: nothing is known after that.
    let off = made.off_cpu.get_mut(&WORKER).expect("switch records");
    let (out_ns, in_ns) = (T0 + 2090 * MS, T0 + 2100 * MS);
    off.push(OffCpu { out_ns, in_ns, preempted: false, cpu: None });
    let before =
        [Value::Wall, Value::Cpu, Value::OffCpu].map(|value| text(&made, Format::Folded, value));
    // Another thread's event, 8 ms later.
    let (t_ns, attributes) = (T0 + 2108 * MS, Vec::new());
    made.events.push(EventRow { name: 14, tid: LOOP, t_ns, request: 0, attributes });
    let after =
        [Value::Wall, Value::Cpu, Value::OffCpu].map(|value| text(&made, Format::Folded, value));
    assert_eq!(before, after);
}
