//! On captures made by hand: the page is whole, bounded and the same every time, and hostile names
//! remain text.
#![allow(clippy::expect_used, missing_docs)]

#[path = "../../diagnosis/tests/it/made/mod.rs"]
mod made;

use capture::read::{Capture, OffCpu, VitalRow};
use format::record::Sample;
use format::wait::{HolderSource, WaitKind};
use made::{code, node, request, MS};
use serde_json::Value;
use view::{Limits, Recorded};

const HOSTILE: &str = "</script><script>alert(1)</script><!--dashcam:data-->";

fn sample(t_ns: u64) -> Sample {
    Sample {
        holder_source: HolderSource::OwnerField,
        lock_holder: 9,
        target: 0xabc0,
        ..made::sample(7, t_ns, WaitKind::Futex, 2)
    }
}

/// `slow` requests of 500 ms that wait for a lock of thread 9, and `normal` ones of 2 ms.
fn capture(slow: u64, normal: u64) -> Capture {
    let mut made = Capture::default();
    made.meta.service = HOSTILE.to_owned();
    made.meta.sources = vec![("switches".to_owned(), "on".to_owned())];
    made.meta.to_ns = (slow + normal + 1) * 1000 * MS;
    made.names =
        ["GET /", HOSTILE, "inner", "/srv/app.py", "rss_bytes"].map(str::to_owned).to_vec();
    made.codes = vec![code(1, 3), code(2, 3)];
    made.stacks = vec![node(0, 1, 4), node(1, 2, 12)];
    let mut off = Vec::new();
    let mut samples = Vec::new();
    for i in 0..slow + normal {
        let begin = (i + 1) * 1000 * MS;
        let ms = if i < slow { 500 } else { 2 };
        made.requests.push(request(i + 1, 7, begin, ms));
        if i < slow {
            let (out_ns, in_ns) = (begin + MS, begin + 499 * MS);
            off.push(OffCpu { out_ns, in_ns, preempted: false, cpu: None });
            samples.extend((1..49).map(|k| sample(begin + k * 10 * MS)));
        }
        made.spans.push(made::span(1, 7, i + 1, begin, ms / 2));
    }
    made.vitals.push(VitalRow { name: 4, t_ns: 5 * MS, value: f64::NAN });
    made.off_cpu.insert(7, off);
    made.samples.insert(7, samples);
    made
}

fn page(capture: &Capture, limits: Limits) -> String {
    let limit = |_: &str| 300 * MS;
    let diagnosis = diagnosis::diagnose(capture, limit);
    let mut recorded = Recorded::default();
    recorded.take(capture, &view::timelines(capture, &limit, limits));
    view::page(capture, &recorded, &diagnosis, "x.dashcam", &limit, limits)
}

/// The text in the element that holds the data.
fn packed(page: &str) -> &str {
    let (_, rest) = page.split_once(r#"id="data">"#).expect("the data's element");
    rest.split_once("</script>").expect("its end").0
}

/// The data of a page, unpacked.
fn data(page: &str) -> Value {
    let bytes = unbase64(packed(page));
    let json = miniz_oxide::inflate::decompress_to_vec_zlib(&bytes).expect("a zlib stream");
    serde_json::from_slice(&json).expect("JSON")
}

fn unbase64(text: &str) -> Vec<u8> {
    let value = |c: u8| match c {
        b'A'..=b'Z' => u32::from(c - b'A'),
        b'a'..=b'z' => u32::from(c - b'a') + 26,
        b'0'..=b'9' => u32::from(c - b'0') + 52,
        b'+' => 62,
        b'/' => 63,
        _ => 0,
    };
    let padding = text.bytes().filter(|c| *c == b'=').count();
    let mut out = Vec::new();
    for four in text.as_bytes().chunks(4) {
        let word = four.iter().fold(0, |word, c| word << 6 | value(*c));
        out.extend_from_slice(&word.to_be_bytes()[1..]);
    }
    out.truncate(out.len() - padding);
    out
}

#[test]
fn slow_requests_have_their_segments_threads_and_cause() {
    let data = data(&page(&capture(3, 200), Limits::default()));
    assert_eq!(data["schema"], 1);
    assert_eq!(data["verdict"]["causes"][0]["cause"], "lock-wait");
    assert_eq!(data["members"][0], serde_json::json!([0, 1, 2]));
    assert_eq!(data["requests"]["name"].as_array().map(Vec::len), Some(203));
    let detail = &data["details"][0];
    let whole: i64 = detail["slices"]["length"]
        .as_array()
        .expect("lengths")
        .iter()
        .filter_map(Value::as_i64)
        .sum();
    assert_eq!(whole, 500 * MS as i64, "slices sum to the request");
    let tids: Vec<&Value> = detail["lanes"]
        .as_array()
        .expect("lanes")
        .iter()
        .map(|l| &data["threads"]["tid"][l.as_u64().unwrap_or(99) as usize])
        .collect();
    assert_eq!(tids, [7, 9], "the thread it waited for has a lane");
    assert!(data["left_out"].to_string().contains("of 200 normal requests"));
    assert_eq!(data["vitals"][0]["value"][0], Value::Null);
}

#[test]
fn hostile_names_remain_text() {
    let page = page(&capture(1, 5), Limits::default());
    assert!(!page.contains("<script>alert(1)"));
    assert!(
        page.contains("&lt;/script&gt;&lt;script&gt;alert(1)"),
        "the service's name is in the title"
    );
    assert!(data(&page)["names"].to_string().contains("alert(1)"));
}

#[test]
fn the_same_capture_gives_the_same_page() {
    let capture = capture(3, 50);
    assert_eq!(page(&capture, Limits::default()), page(&capture, Limits::default()));
}

#[test]
fn a_page_past_its_size_holds_fewer_requests_and_says_so() {
    let capture = capture(60, 400);
    let all = page(&capture, Limits::default());
    let bytes = packed(&all).len() / 2;
    let small = page(&capture, Limits { bytes, ..Limits::default() });
    assert!(packed(&small).len() <= bytes, "{} of {bytes}", packed(&small).len());
    let data = data(&small);
    let kept = data["details"].as_array().map_or(0, Vec::len);
    assert!((1..60).contains(&kept), "{kept}");
    assert!(data["left_out"].to_string().contains("slowest of 60 slow requests"));
}

#[test]
fn damaged_times_and_an_empty_capture_make_a_page_too() {
    let empty = data(&page(&Capture::default(), Limits::default()));
    assert_eq!(empty["verdict"]["requests"]["total"], 0);
    let mut odd = capture(2, 5);
    odd.requests[1].begin_ns = u64::MAX - 5;
    odd.requests[1].end_ns = None;
    odd.gcs.push(capture::read::GcRow {
        tid: 1,
        generation: 2,
        begin_ns: u64::MAX,
        end_ns: 0,
        collected: u64::MAX,
    });
    odd.stacks[1].parent = 77;
    assert!(data(&page(&odd, Limits::default()))["details"].is_array());
}
