//! On captures made by hand: what a verdict reports beside its cause, where little is known and
//! where all is.

use capture::read::{Capture, MetricRow, RequestRow};
use diagnosis::{diagnose, Diagnosis};
use format::metric::Numbers;
use format::wait::WaitKind::{self, Futex, Sleep};
use made::{also_seen, off, request, stack, BEGIN, MS};
use report::{to_json, to_text};

use crate::made;

const OWN: u32 = 7;
const OTHER: u32 = 9;
const APP: &str = "/srv/shop/app.py";

fn judge(made: &Capture) -> Diagnosis<'_> {
    diagnose(made, |_| 300 * MS)
}

/// Thread 7 waits in `stack` for all of a request of half a second.
fn waits(made: &mut Capture, id: u64, wait: WaitKind, stack: u32) {
    made.requests.push(request(id, OWN, BEGIN, 500));
    off(made, OWN, &[(0, 500)]);
    also_seen(made, OWN, (5..500).step_by(10), wait, stack);
}

fn sleeper() -> Capture {
    let mut made = made::capture(OWN, &["GET /"]);
    let nap = stack(&mut made, &[("view", APP, 3), ("price", APP, 12), ("nap", APP, 30)]);
    waits(&mut made, 99, Sleep, nap);
    made
}

#[test]
fn one_slow_request_and_nothing_to_compare_with_is_never_sure() {
    let mut made = sleeper();
    let confidence = |made: &Capture| judge(made).findings[0].confidence.text();
    assert_eq!(confidence(&made), "confirmed", "fifty normal ones");
    made.requests.drain(..46);
    assert_eq!(confidence(&made), "likely", "four normal ones");
    let few = judge(&made);
    assert_eq!(few.findings[0].missing, ["one slow request, and 4 to compare with"]);
    made.requests.drain(..4);
    assert_eq!(confidence(&made), "likely", "none");
    let alone = judge(&made);
    assert_eq!(alone.findings[0].missing, ["no normal request was there to compare with"]);
}

#[test]
fn the_only_request_is_not_one_of_several() {
    let mut made = made::capture(OWN, &["GET /"]);
    made.requests.truncate(1);
    let text = to_text(&judge(&made));
    let wanted = "Nothing to blame: the only request took 2.0 ms, less than 300 ms.\n";
    assert!(text.starts_with(wanted), "{text}");
}

#[test]
fn limits_by_name_are_reported_from_the_lowest_to_the_highest() {
    let mut made = made::capture(OWN, &["GET /", "POST /pay"]);
    let headline = |made: &Capture, get_ns: u64| {
        let limit = |name: &str| if name == "GET /" { get_ns } else { 20 * MS };
        to_text(&diagnose(made, limit)).lines().next().unwrap_or_default().to_owned()
    };
    let begins = |made: &Capture, wanted: &str| {
        let text = headline(made, 300 * MS);
        assert!(text.starts_with(wanted), "{text}");
    };
    // A limit that holds for no request of the capture is not one of its limits.
    begins(&made, "Nothing to blame: none of 50 requests took over 300 ms (");
    let none = headline(&made, u64::MAX);
    assert_eq!(none, "Nothing to blame: no rule says what is slow (50 requests).");
    let pays = |id, ms| RequestRow { name: 1, ..request(id, OWN, BEGIN, ms) };
    made.requests.push(pays(98, 5));
    begins(
        &made,
        "Nothing to blame: none of 51 requests took over their limits of 20 ms to 300 ms",
    );
    made.requests.push(request(99, OWN, BEGIN, 500));
    begins(&made, "1 of 52 requests took over 300 ms (");
    made.requests.push(pays(97, 50));
    begins(&made, "2 of 53 requests took over their limits of 20 ms to 300 ms (");
}

#[test]
fn what_no_cause_claims_is_reported_with_the_stacks_it_passed_in() {
    let mut made = made::capture(OWN, &["GET /"]);
    let ask = stack(&mut made, &[("view", APP, 3), ("price", APP, 12), ("ask", APP, 31)]);
    let report = stack(&mut made, &[("view", APP, 4), ("tell", APP, 40)]);
    waits(&mut made, 99, WaitKind::Other, ask);
    let samples = made.samples.get_mut(&OWN).expect("seen");
    samples.iter_mut().filter(|s| s.t_ns >= BEGIN + 350 * MS).for_each(|s| s.stack = report);
    // Two waits: the second one begins where it was seen elsewhere.
    off(&mut made, OWN, &[(0, 350), (351, 500)]);
    let verdict = judge(&made);
    let text = to_text(&verdict);
    assert_eq!(verdict.findings[0].cause.text(), "unknown", "{text}");
    assert!(text.contains("   Seen: 70 % in view() > price() > app.py:31 ask().\n"), "{text}");
    assert!(text.contains("   Seen: 30 % in view() > app.py:40 tell().\n"), "{text}");
    let json = to_json(&verdict, "one.dashcam");
    let evidence = json["causes"][0]["evidence"].as_array().expect("evidence");
    let reported: Vec<_> = evidence.iter().filter_map(|e| e["what"].as_str()).collect();
    assert!(
        reported.contains(&"part of it passed in view() > price() > app.py:31 ask()"),
        "{reported:?}"
    );
}

#[test]
fn what_is_explained_has_no_list_of_stacks() {
    let text = to_text(&judge(&sleeper()));
    assert!(!text.contains("Seen:"), "{text}");
}

#[test]
fn the_excess_is_of_all_slow_requests_also_of_those_that_were_not_divided() {
    let mut made = sleeper();
    let typical_ms = judge(&made).typical_ns.expect("normal ones") / MS;
    let one = judge(&made).excess_ns;
    assert_eq!(one, (500 - typical_ms) * MS);
    // More than are divided among causes.
    for id in 1000..1250 {
        made.requests.push(request(id, OTHER, BEGIN + (id - 990) * 1000 * MS, 400));
    }
    let verdict = judge(&made);
    let all = one + 250 * (400 - typical_ms) * MS;
    assert_eq!((verdict.slow, verdict.excess_ns), (251, all));
    let json = to_json(&verdict, "one.dashcam");
    assert_eq!(json["requests"]["excess_ns"], all);
    for (finding, cause) in verdict.findings.iter().zip(json["causes"].as_array().expect("list")) {
        let part = cause["excess_ns"].as_f64().expect("a number") / all as f64;
        assert!((part - finding.share).abs() < 1e-6, "{part} {}", finding.share);
    }
    assert!(!verdict.findings.is_empty());
}

/// A window of a second in which dashcam's sampler took 10 ms.
fn with_own_cost(made: &mut Capture) {
    made.names.push("dashcam.sampler.cpu_seconds".to_owned());
    let name = made.names.len() as u32 - 1;
    let numbers = Numbers::Count(1.0);
    let tags = Vec::new();
    made.metrics.push(MetricRow { name, kind: 0, tags, from_ns: 0, to_ns: 0, numbers });
}

#[test]
fn dashcam_is_a_suspect_like_any_other() {
    let mut made = sleeper();
    let text = to_text(&judge(&made));
    assert!(!text.contains("dashcam itself"), "nothing records it: {text}");
    // One second of CPU in the hundred that the capture covers: a hundredth of half a second.
    with_own_cost(&mut made);
    let verdict = judge(&made);
    let text = to_text(&verdict);
    assert!(text.contains("locks 0.0 ms, dashcam itself 5.0 ms.\n"), "{text}");
    // What another of its threads ran meanwhile, by switch records: 20 ms between two waits.
    off(&mut made, OTHER, &[(0, 100), (120, 400)]);
    // The same thread, as earlier recorders called it, and as it is called.
    for name in ["dashcam-keeper", "dashcam-capture"] {
        made.threads.retain(|thread| thread.tid != OTHER);
        made.threads.push(made::thread(OTHER, name));
        let text = to_text(&judge(&made));
        assert!(text.contains("dashcam itself 25 ms.\n"), "{name}: {text}");
    }
    let json = to_json(&judge(&made), "one.dashcam");
    assert_eq!(json["otherwise"][4]["what"], "dashcam itself");
    assert_eq!(json["otherwise"][4]["ms"], 25.0);
}

#[test]
fn a_fingerprint_survives_edits_and_other_days_but_no_other_place() {
    let print = |function: &str, line: u32, begin_ms: u64| {
        let mut made = made::capture(OWN, &["GET /"]);
        made.requests.push(request(98, OWN, BEGIN + begin_ms * MS, 2));
        let nap = stack(&mut made, &[("view", APP, 3), (function, APP, line)]);
        waits(&mut made, 99, Sleep, nap);
        judge(&made).findings[0].fingerprint.clone()
    };
    assert_eq!(print("nap", 30, 900), print("nap", 44, 5000));
    assert_ne!(print("nap", 30, 900), print("rest", 30, 900));
}

#[test]
fn the_answer_comes_first_then_how_often_then_what_is_not_certain_on_one_screen() {
    let mut made = made::capture(OWN, &["GET /"]);
    // Five causes, one a request, each inferred or unsure in some way.
    for (i, wait) in [Futex, Sleep, WaitKind::Other, WaitKind::SocketRead, WaitKind::FileSync]
        .into_iter()
        .enumerate()
    {
        let at = 1000 * i as u64;
        let function = format!("step_{i}");
        let own = stack(&mut made, &[("view", APP, 3), (&function, APP, 10 + i as u32)]);
        let row = request(200 + i as u64, OWN, BEGIN + at * MS, 400 + i as u64);
        made.requests.push(RequestRow { ..row });
        made::also_off(&mut made, OWN, false, &[(at, at + 400)]);
        also_seen(&mut made, OWN, (at + 5..at + 400).step_by(10), wait, own);
    }
    let text = to_text(&judge(&made));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("5 of 55 requests took over 300 ms"), "{text}");
    assert!(lines[1].starts_with("1. "), "{text}");
    assert!(lines[2].starts_with("   1 of 5 slow requests, 0 of 50 normal ones"), "{text}");
    let part = |begin: &str| lines.iter().position(|l| l.starts_with(begin));
    let (unsure, advice) = (part("   Not certain:"), part("   Advice:"));
    assert!(unsure > Some(2), "{text}");
    assert!(advice.is_some() && part("Not the cause,") > advice, "{text}");
    assert!(lines.len() <= 30, "{} lines:\n{text}", lines.len());
}
