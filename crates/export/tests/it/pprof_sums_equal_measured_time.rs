//! pprof: values, labels, places and notes are those of the capture.

use crate::common;

use std::collections::BTreeMap;

use capture::read::Capture;
use common::{capture, MS};
use export::pprof::{Profile, Sample};
use export::{Chosen, Format, Options};
use format::wait::WaitKind;
use prost::Message;

fn profile(capture: &Capture) -> Profile {
    export::pprof::profile(capture, &common::options(export::Value::Wall), &mut |_, _| ())
}

fn string(profile: &Profile, index: i64) -> &str {
    &profile.string_table[index as usize]
}

fn labels(profile: &Profile, sample: &Sample) -> BTreeMap<String, String> {
    let value = |l: &export::pprof::Label| match l.str {
        0 => l.num.to_string(),
        text => string(profile, text).to_owned(),
    };
    sample.label.iter().map(|l| (string(profile, l.key).to_owned(), value(l))).collect()
}

/// Innermost function of a sample, with its file and line.
fn leaf(profile: &Profile, sample: &Sample) -> String {
    let location = &profile.location[sample.location_id[0] as usize - 1];
    let line = &location.line[0];
    let function = &profile.function[line.function_id as usize - 1];
    assert_eq!((location.id, function.id), (sample.location_id[0], line.function_id));
    let (name, file) = (string(profile, function.name), string(profile, function.filename));
    format!("{name} {file}:{}", line.line)
}

/// Sums of a thread: samples, wall, cpu, off-cpu; times in ms.
fn sums(profile: &Profile, thread: &str) -> [i64; 4] {
    let mut out = [0; 4];
    for sample in &profile.sample {
        if labels(profile, sample)["thread"] == thread {
            for (sum, value) in out.iter_mut().zip(&sample.value) {
                *sum += value;
            }
        }
    }
    let ms = MS as i64;
    [out[0], out[1] / ms, out[2] / ms, out[3] / ms]
}

#[test]
fn with_switch_records_the_whole_window_is_accounted_for() {
    let made = profile(&capture(true));
    // 2,100 ms there, of them 10 preempted and 1,000 asleep; CPU: 990 by the samples, and the
    // 100 ms behind the last sample from the switches.
    assert_eq!(sums(&made, "worker"), [103, 2100, 990 + 100, 1010]);
}

#[test]
fn without_switch_records_the_samples_own_times_are_summed_and_the_note_says_so() {
    let made = profile(&capture(false));
    assert_eq!(sums(&made, "worker"), [103, 1990, 990, 1000]);
    let notes: Vec<&str> = made.comment.iter().map(|c| string(&made, *c)).collect();
    assert!(notes.iter().any(|n| n.contains("off-cpu: an estimate")), "{notes:?}");
    assert!(notes.contains(&"source switches is off: paranoid"), "{notes:?}");
    assert!(notes.contains(&"loss stacks_torn: 3"), "{notes:?}");
    assert!(!notes.iter().any(|n| n.contains("names_refused")), "{notes:?}");
}

#[test]
fn time_asleep_is_at_the_line_that_slept_with_request_span_and_peer() {
    let made = profile(&capture(true));
    let asleep = made.sample.iter().max_by_key(|s| s.value[3]).expect("a sample");
    assert_eq!(leaf(&made, asleep), "nap /srv/app.py:9");
    assert_eq!(asleep.value[3], 1000 * MS as i64);
    let wanted = [
        ("request", "GET /work"),
        ("request id", "64"),
        ("slow", "yes"),
        ("span", common::HOSTILE),
        ("target", "tcp 10.0.0.1:5432"),
        ("thread", "worker"),
        ("thread id", "7"),
        ("trace id", "abc123"),
        ("wait", "socket read"),
    ];
    let wanted = wanted.map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(labels(&made, asleep), BTreeMap::from(wanted));
}

#[test]
fn stacks_of_two_tasks_are_apart_and_bear_their_names() {
    let mut capture = capture(true);
    for (i, sample) in capture.samples.get_mut(&common::WORKER).into_iter().flatten().enumerate() {
        sample.task = [14, 0, 11][i % 3];
    }
    let made = profile(&capture);
    let named = |task: Option<&str>| {
        let of = |s: &&Sample| labels(&made, s).get("task").map(String::as_str) == task;
        made.sample.iter().filter(of).map(|s| s.value[0]).sum::<i64>()
    };
    assert_eq!([named(Some("cache.miss")), named(None), named(Some("rss_bytes"))], [35, 34, 34]);
}

#[test]
fn a_preempted_thread_waits_for_a_cpu_and_for_nothing_else() {
    let made = profile(&capture(true));
    let ready = made.sample.iter().find(|s| s.value[3] == 10 * MS as i64).expect("a sample");
    let labels = labels(&made, ready);
    assert_eq!(labels["wait"], "runnable, no CPU");
    assert!(!labels.contains_key("target"));
    assert_eq!(leaf(&made, ready), "busy.<locals>.inner /srv/app.py:5");
}

#[test]
fn the_file_is_the_gzipped_profile_and_its_head_says_when() {
    let capture = capture(true);
    let packed = common::export(&capture, Format::Pprof, export::Value::Wall);
    let mut unpacked = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&*packed), &mut unpacked)
        .expect("gzip");
    let read = Profile::decode(&*unpacked).expect("a profile");
    assert_eq!(read, profile(&capture));
    assert_eq!(read.time_nanos, 1_700_000_001_000 * MS as i64);
    assert_eq!(read.duration_nanos, 2100 * MS as i64);
    assert_eq!(read.period, 10 * MS as i64);
    let kinds: Vec<String> = read
        .sample_type
        .iter()
        .map(|t| format!("{}/{}", string(&read, t.kind), string(&read, t.unit)))
        .collect();
    let wanted = ["samples/count", "wall/nanoseconds", "cpu/nanoseconds", "off-cpu/nanoseconds"];
    assert_eq!(kinds, wanted);
}

/// A second, normal request of the worker, a request of a dashcam thread's name, and their samples.
fn slow_and_normal() -> Capture {
    let mut made = capture(false);
    made.requests.push(common::request(70, 1, common::WORKER, 2000, 2100));
    let seen = |tid, ms| common::sample(tid, ms, WaitKind::Running, 2, 10, 10);
    made.samples.get_mut(&common::WORKER).expect("its samples").push(seen(common::WORKER, 2050));
    made.samples.insert(common::HELPER, vec![seen(common::HELPER, 50)]);
    let helper = made.threads.iter_mut().find(|t| t.tid == common::HELPER).expect("a thread");
    helper.name = "dashcam-sampler".to_owned();
    made
}

/// Samples by thread and the label `slow`, of one choice.
fn chosen(requests: Chosen, all_threads: bool) -> Vec<(String, Option<String>, i64)> {
    let options = Options { requests, all_threads, ..common::options(export::Value::Wall) };
    let made = export::pprof::profile(&slow_and_normal(), &options, &mut |_, _| ());
    let mut sums = BTreeMap::new();
    for sample in &made.sample {
        let mut labels = labels(&made, sample);
        let key = (labels.remove("thread").expect("a thread"), labels.remove("slow"));
        *sums.entry(key).or_insert(0) += sample.value[0];
    }
    sums.into_iter().map(|((thread, slow), sum)| (thread, slow, sum)).collect()
}

#[test]
fn samples_are_chosen_by_request_and_own_threads_are_asked_for() {
    let row = |thread: &str, slow: Option<&str>, samples| {
        (thread.to_owned(), slow.map(str::to_owned), samples)
    };
    let (slow, normal) = (row("worker", Some("yes"), 103), row("worker", Some("no"), 1));
    assert_eq!(chosen(Chosen::Slow, false), std::slice::from_ref(&slow));
    assert_eq!(chosen(Chosen::Normal, false), std::slice::from_ref(&normal));
    assert_eq!(chosen(Chosen::One(70), false), std::slice::from_ref(&normal));
    assert_eq!(chosen(Chosen::Everything, false), [normal.clone(), slow.clone()]);
    let own = row("dashcam-sampler", None, 1);
    assert_eq!(chosen(Chosen::Everything, true), [own, normal, slow]);
}

#[test]
fn a_choice_without_requests_is_refused_and_one_of_a_loop_warns() {
    let made = slow_and_normal();
    let check = |requests, limit_ns: &dyn Fn(&str) -> u64| {
        let wall = common::options(export::Value::Wall);
        Options { requests, limit_ns, ..wall }.check(&made)
    };
    let half_second = |_: &str| 500 * MS;
    assert_eq!(check(Chosen::Slow, &half_second), Ok(None));
    assert!(check(Chosen::Slow, &|_| u64::MAX).is_err_and(|e| e.contains("past its limit")));
    assert!(check(Chosen::Normal, &|_| 0).is_err_and(|e| e.contains("within its limit")));
    assert!(check(Chosen::One(999), &half_second).is_err_and(|e| e.contains("no request 999")));
    assert!(check(Chosen::One(65), &half_second).is_ok_and(|note| note.is_some()));
}
