//! Records made by hand, good and bad; real switches are in the crate's tests folder.

use super::limits::parse_cpus;
use super::ring::{Records, Tally};
use super::wakings::Layout;
use super::*;

const PID: u32 = 77;
/// When the previous reader gave its space back.
const RELEASED_NS: u64 = 140;
/// As Linux 6.18 has it.
const FORMAT: &str = "name: sched_waking
ID: 375
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;
\tfield:int prio;\toffset:28;\tsize:4;\tsigned:1;
";

fn header(kind: u64, misc: u64, size: u64) -> u64 {
    kind | misc << 32 | size << 48
}

fn switch(tid: u64, misc: u64, t_ns: u64) -> [u64; 3] {
    [header(14, misc, 24), u64::from(PID) | tid << 32, t_ns]
}

/// Lays `words` into a ring of `ring_words` from word `from` on and reads all switches.
fn read(words: &[u64], ring_words: usize, from: usize) -> (Vec<String>, Tally) {
    let mut ring = vec![u64::MAX; ring_words];
    for (i, word) in words.iter().enumerate() {
        ring[(from + i) % ring_words] = *word;
    }
    let mut records = Records {
        word: |at| ring[(at as usize / 8) % ring_words],
        at: from as u64 * 8,
        head: (from + words.len()) as u64 * 8,
        pid: PID,
        cpu: 1,
        wakings: Layout::of(FORMAT),
        last_ns: 50,
        released_ns: RELEASED_NS,
    };
    let (mut last, mut tally, mut out) = (None, Tally::default(), Vec::new());
    while let Some(s) = records.next_switch(&mut last, &mut tally) {
        out.push(format!("{} {} {:?}", s.t_ns, s.tid, s.kind));
    }
    (out, tally)
}

#[test]
fn records_are_read_across_the_end_of_the_ring() {
    let words = [switch(5, 0, 100), switch(5, 1 << 13, 200), switch(5, 3 << 13, 300)].concat();
    for from in 0..16 {
        let (seen, tally) = read(&words, 16, from);
        assert_eq!(seen, ["100 5 In", "200 5 Out", "300 5 Preempted"], "from {from}");
        assert_eq!(tally, Tally::default());
    }
}

/// `by` wakes `tid`.
fn waking(tid: u64, (by_pid, by_tid): (u64, u64), flags: u64, t_ns: u64) -> [u64; 8] {
    let front = [header(9, 0, 64), by_pid | by_tid << 32, t_ns];
    // 36 bytes of the tracepoint's behind their number.
    let own = [36 | flags << 48, 0, 0, tid << 32, 0];
    [&front[..], &own].concat().try_into().expect("eight words")
}

#[test]
fn a_wakeup_has_the_woken_thread_and_its_waker() {
    let words = [
        &switch(5, 1 << 13, 90)[..],
        &waking(5, (u64::from(PID), 6), 0, 100),
        &waking(5, (78, 9), 1, 101),
        // In a hard and in a soft interrupt, and from the idle thread.
        &waking(5, (u64::from(PID), 6), 0x09, 102),
        &waking(5, (u64::from(PID), 6), 0x10, 103),
        &waking(5, (0, 0), 0, 104),
        &switch(5, 0, 110),
    ]
    .concat();
    for from in 0..64 {
        let (seen, tally) = read(&words, 64, from);
        assert_eq!(
            seen,
            [
                "90 5 Out",
                "100 5 Woken { by: Thread(6) }",
                "101 5 Woken { by: Process(78) }",
                "102 5 Woken { by: Kernel }",
                "103 5 Woken { by: Kernel }",
                "104 5 Woken { by: Kernel }",
                "110 5 In"
            ]
        );
        assert_eq!(tally, Tally::default());
    }
}

#[test]
fn wakeups_that_are_too_short_are_ignored() {
    let mut words = waking(5, (78, 9), 0, 100);
    words[0] = header(9, 0, 48);
    assert_eq!(read(&words[..6], 16, 0).0, Vec::<String>::new());
}

#[test]
fn the_kernel_says_where_things_lie() {
    let layout = Layout::of(FORMAT).expect("it has both fields");
    assert_eq!((layout.wakee_at, layout.flags_at), (28 + 24, 28 + 2));
    assert_eq!(Layout::of(""), None);
    for broken in ["offset:7;", "offset:99999;", "offset:-1;", "offset:x;", ""] {
        let text = FORMAT.replace("offset:24;", broken);
        assert_eq!(Layout::of(&text), None, "{broken}");
    }
}

#[test]
fn losses_are_reported_and_counted_and_unknown_records_skipped() {
    let lost = [header(2, 0, 40), 9, 12, u64::from(PID), 150];
    let throttle = [header(5, 0, 16), 1];
    let words = [&switch(5, 0, 100)[..], &lost, &throttle, &switch(5, 0, 200)].concat();
    let (seen, tally) = read(&words, 32, 3);
    assert_eq!(seen, ["100 5 In", "100 0 Lost { until_ns: 140 }", "200 5 In"]);
    assert_eq!(tally.lost, 12);
}

#[test]
fn a_gap_ends_where_there_was_room_again() {
    let lost = |t_ns| [header(2, 0, 40), 9, 1, u64::from(PID), t_ns];
    let gap = |before, t_ns| {
        let words = [&switch(5, 0, before)[..], &lost(t_ns), &switch(5, 0, t_ns)].concat();
        read(&words, 16, 0).0[1].clone()
    };
    assert_eq!(gap(100, 120), "100 0 Lost { until_ns: 120 }");
    assert_eq!(gap(100, 9_000), "100 0 Lost { until_ns: 140 }", "a CPU that was idle since");
    assert_eq!(
        gap(150, 160),
        "150 0 Lost { until_ns: 160 }",
        "it was a larger one that found no room"
    );
    // Records of other processes have a time, too; and before the first one there is a time.
    let mut child = switch(5, 0, 130);
    child[1] = 78 | 5 << 32;
    let words = [&lost(60)[..], &child, &lost(135)].concat();
    let wanted = ["50 0 Lost { until_ns: 60 }", "130 0 Lost { until_ns: 135 }"];
    assert_eq!(read(&words, 16, 0).0, wanted);
}

#[test]
fn a_record_that_comes_twice_is_delivered_once() {
    let words = [switch(5, 0, 100), switch(5, 0, 101), switch(6, 0, 102)].concat();
    let (seen, tally) = read(&words, 16, 0);
    assert_eq!(seen, ["100 5 In", "102 6 In"]);
    assert_eq!(tally.repeated, 1);
}

#[test]
fn other_processes_and_threads_without_id_are_left_out() {
    let mut child = switch(5, 0, 100);
    child[1] = 78 | 5 << 32;
    let words = [child, switch(u64::from(u32::MAX), 0, 101), switch(0, 0, 102)].concat();
    assert_eq!(read(&words, 16, 0).0, Vec::<String>::new());
}

#[test]
fn records_that_cannot_be_end_the_reading_and_are_counted() {
    for size in [0, 4, 12, 4096] {
        let words = [&switch(5, 0, 100)[..], &[header(14, 0, size), 1, 2]].concat();
        let (seen, tally) = read(&words, 16, 0);
        // It is not known what the rest was.
        assert_eq!(seen, ["100 5 In", "100 0 Lost { until_ns: 18446744073709551615 }"]);
        assert_eq!(tally.garbled, 1, "size {size}");
    }
}

#[test]
fn noise_is_never_a_panic() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..20_000 {
        let words: Vec<u64> = (0..16)
            .map(|i| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                // Half of the words get a plausible size, so that parsing goes on behind them.
                match i % 2 {
                    0 => state & 0xffff_ffff_ffff | (state >> 61) << 51,
                    _ => state,
                }
            })
            .collect();
        read(&words, 16, (state >> 60) as usize);
    }
}

#[test]
fn lists_of_cpus_are_read_as_the_kernel_writes_them() {
    assert_eq!(parse_cpus("0-2,8,10-11\n"), Some(vec![0, 1, 2, 8, 10, 11]));
    for text in ["", "\n", "a", "1-", "-1", "0,,1", "0-99999999"] {
        assert_eq!(parse_cpus(text), None, "{text:?}");
    }
}

#[test]
fn cpus_added_later_are_covered() {
    let Ok(mut stream) = SwitchStream::open_on(&[0], &[]) else {
        return;
    };
    let before = stream.descriptors();
    let added = stream.cover_new_cpus(&[]).expect("the other CPUs open as the first did");
    assert_eq!(added, online_cpus().len() - 1);
    assert_eq!(stream.descriptors() > before, added > 0);
    assert_eq!(stream.cover_new_cpus(&[]), Ok(0));
}
