//! folded and speedscope: weights are those of the capture, whatever the names are.

use crate::common;

use common::{capture, sample, text, HELPER, MS, WORKER};
use export::{Format, Value};
use format::wait::WaitKind;

#[test]
fn folded_lines_go_from_the_root_to_the_leaf_and_end_in_their_value() {
    let lines = |value| text(&capture(true), Format::Folded, value);
    let busy = "main (threading.py:100);busy.<locals>.inner (/srv/app.py:5)";
    let nap = "main (threading.py:100);nap (/srv/app.py:9)";
    assert_eq!(lines(Value::Samples), format!("{busy} 101\n{nap} 2\n"));
    assert_eq!(lines(Value::OffCpu), format!("{busy} {}\n{nap} {}\n", 10 * MS, 1000 * MS));
    assert_eq!(
        lines(Value::Wall),
        format!("{busy} {}\n{nap} {}\nworker;[not sampled] {}\n", 1000 * MS, 1000 * MS, 100 * MS)
    );
    assert_eq!(
        lines(Value::Cpu),
        format!("{busy} {}\nworker;[not sampled] {}\n", 990 * MS, 100 * MS)
    );
}

#[test]
fn a_hostile_name_ends_neither_frame_nor_line() {
    let mut made = capture(false);
    let seen = sample(HELPER, 5, WaitKind::Running, 4, 7, 7);
    let bare = sample(HELPER, 9, WaitKind::Futex, 0, 4, 0);
    made.samples.insert(HELPER, vec![seen, bare]);
    let out = text(&made, Format::Folded, Value::Wall);
    let lines: Vec<&str> = out.lines().filter(|l| !l.contains("app.py:5)")).collect();
    assert_eq!(
        lines,
        [
            &format!("helper \"<b>\";[no Python stack] {}", 4 * MS),
            &format!(
                "main (threading.py:100);a\"b:c</script><script>      \\ d: (/srv/app.py:77) {}",
                7 * MS
            ),
            &format!("main (threading.py:100);nap (/srv/app.py:9) {}", 990 * MS),
        ]
    );
}

#[test]
fn speedscope_has_a_profile_a_thread_in_the_order_of_time() {
    let out = text(&capture(true), Format::Speedscope, Value::Wall);
    let file: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    let profile = &file["profiles"][1];
    assert_eq!(file["profiles"].as_array().map(Vec::len), Some(2), "the slowest request, a thread");
    assert_eq!(profile["name"], format!("worker ({WORKER})"));
    assert_eq!(profile["unit"], "nanoseconds");
    let weights = profile["weights"].as_array().expect("weights");
    let sum: u64 = weights.iter().filter_map(serde_json::Value::as_u64).sum();
    assert_eq!(sum, 2100 * MS);
    let length = profile["endValue"].as_u64().zip(profile["startValue"].as_u64());
    assert_eq!(length, Some((2100 * MS, 0)));
    let stacks = profile["samples"].as_array().expect("samples");
    assert_eq!(stacks.len(), weights.len());
    let frames = file["shared"]["frames"].as_array().expect("frames");
    let named = |id: &serde_json::Value| {
        let frame = &frames[id.as_u64().expect("an index") as usize];
        format!("{} {}:{}", frame["name"], frame["file"], frame["line"])
    };
    let longest = (0..weights.len()).max_by_key(|i| weights[*i].as_u64()).expect("one");
    let stack: Vec<String> = stacks[longest].as_array().expect("ids").iter().map(named).collect();
    let wanted = ["\"main\" \"/usr/lib/python3/threading.py\":100", "\"nap\" \"/srv/app.py\":9"];
    assert_eq!(stack, wanted);
}

#[test]
fn speedscope_counts_samples_without_a_unit() {
    let out = text(&capture(false), Format::Speedscope, Value::Samples);
    let file: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(file["profiles"][1]["unit"], "none");
    assert_eq!(file["profiles"][1]["endValue"], 103);
}

#[test]
fn speedscope_opens_at_the_slowest_request() {
    let opened = |made: &capture::read::Capture| {
        let out = text(made, Format::Speedscope, Value::Wall);
        let file: serde_json::Value = serde_json::from_str(&out).expect("JSON");
        let active = file["activeProfileIndex"].as_u64().expect("an index") as usize;
        let shown = &file["profiles"][active];
        let name = shown["name"].as_str().expect("a name").to_owned();
        (name, shown["startValue"].as_u64(), shown["endValue"].as_u64())
    };
    // Of two requests on one thread the first one, from 0 to 2 s of 2.1 s.
    let mut made = capture(true);
    made.requests.push(common::request(70, 1, WORKER, 2000, 2100));
    let named = format!("slowest request: GET /work, 2000 ms, id 64, on worker ({WORKER})");
    assert_eq!(opened(&made), (named, Some(0), Some(2000 * MS)));
    made.requests.clear();
    assert_eq!(opened(&made).0, format!("worker ({WORKER})"), "the busiest thread");
}
