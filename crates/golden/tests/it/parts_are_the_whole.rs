//! A capture that is read in parts: every row is in one part, and only one, and no part keeps many.

use std::collections::BTreeSet;
use std::path::Path;

use capture::read::{Capture, Parts};
use golden::{large, store};

/// What a part owns, as text, so that a difference can be read.
fn owned(capture: &Capture, out: &mut Vec<String>) {
    let name = |id: u32| capture.name(id);
    for r in capture.requests.iter().filter(|r| capture.owns(r.begin_ns)) {
        let (times, how) = ((r.begin_ns, r.started_ns, r.end_ns), (r.error, r.on_loop));
        out.push(format!("request {} {} {} {times:?} {how:?}", r.id, name(r.name), r.tid));
    }
    let own = capture.own_spans.iter().map(|s| ("own", s));
    for (kind, s) in capture.spans.iter().map(|s| ("span", s)).chain(own) {
        if capture.owns(s.begin_ns) {
            let rest = (s.request, s.error, s.open, &s.attributes);
            let times = (s.begin_ns, s.end_ns);
            out.push(format!("{kind} {} {} {times:?} {rest:?}", name(s.name), s.tid));
        }
    }
    let events = capture.events.iter().filter(|e| capture.owns(e.t_ns));
    out.extend(
        events.map(|e| format!("event {} {} {} {:?}", name(e.name), e.t_ns, e.tid, e.attributes)),
    );
    let gcs = capture.gcs.iter().filter(|g| capture.owns(g.begin_ns));
    out.extend(gcs.map(|g| format!("{g:?}")));
    let tasks = capture.tasks.iter().filter(|t| capture.owns(t.begin_ns));
    out.extend(tasks.map(|t| format!("{t:?}")));
    let vitals = capture.vitals.iter().filter(|v| capture.owns(v.t_ns));
    out.extend(vitals.map(|v| format!("vital {} {} {}", name(v.name), v.t_ns, v.value)));
    let metrics = capture.metrics.iter().filter(|m| capture.owns(m.to_ns));
    out.extend(metrics.map(|m| format!("metric {} {} {:?}", name(m.name), m.to_ns, m.numbers)));
    let traces = capture.traces.iter().filter(|t| capture.owns(t.record.t_ns));
    out.extend(traces.map(|t| format!("trace {} {:?}", t.tid, t.record)));
    let links = capture.links.iter().filter(|l| capture.owns(l.link.t_ns));
    out.extend(links.map(|l| format!("link {:?}", l.link)));
    let samples = capture.samples.values().flatten().filter(|s| capture.owns(s.t_ns));
    for s in samples {
        let frames: Vec<&str> = capture.frames(s.stack).map(|f| f.function).collect();
        out.push(format!("sample {} {} {:?} {frames:?}", s.tid, s.t_ns, s.wait));
    }
    let awaits = capture.awaits.values().flatten().filter(|a| capture.owns(a.t_ns));
    out.extend(awaits.map(|a| format!("await {} {} {:?}", a.request, a.t_ns, a.kind)));
    let suspensions = capture.suspensions.values().flatten().filter(|s| capture.owns(s.in_ns));
    out.extend(suspensions.map(|s| format!("{s:?}")));
    let wakes = capture.wakes.values().flatten().filter(|w| capture.owns(w.t_ns));
    out.extend(wakes.map(|w| format!("wake {} {}", w.tid, w.t_ns)));
    for (tid, rows) in &capture.off_cpu {
        // Those without a CPU may stand for a record that samples show to be missing.
        let own = rows.iter().filter(|o| capture.owns(o.out_ns) && o.cpu.is_some());
        out.extend(own.map(|o| format!("off {tid} {o:?}")));
    }
}

fn sorted(mut rows: Vec<String>) -> Vec<String> {
    rows.sort();
    rows
}

fn in_parts(bytes: &[u8], words: usize) -> (usize, usize, Vec<String>) {
    let (mut parts, mut capture) = Parts::parse(bytes, words).expect("a capture");
    let (mut rows, mut most) = (Vec::new(), 0);
    while parts.next(&mut capture).expect("readable") {
        owned(&capture, &mut rows);
        let kept = capture.requests.len() + capture.spans.len() + capture.events.len();
        most = most.max(kept);
    }
    (parts.count(), most, sorted(rows))
}

fn first_difference(whole: &[String], parts: &[String]) -> Option<String> {
    let (a, b): (BTreeSet<_>, BTreeSet<_>) = (whole.iter().collect(), parts.iter().collect());
    let missing = a.difference(&b).next().map(|row| format!("missing: {row}"));
    let new = b.difference(&a).next().map(|row| format!("new: {row}"));
    let twice = (whole.len() != parts.len()).then(|| format!("{} {}", whole.len(), parts.len()));
    missing.or(new).or(twice)
}

#[test]
fn the_parts_of_golden_captures_have_each_row_once() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/captures");
    let entries = store::entries(&folder, "*").expect("golden captures");
    let mut divided = 0;
    for entry in entries.iter().step_by(7) {
        let bytes = entry.capture().expect("a capture");
        let Ok(whole) = Capture::parse(&bytes) else { continue };
        let mut rows = Vec::new();
        owned(&whole, &mut rows);
        let (count, _, parts) = in_parts(&bytes, 1 << 14);
        divided += usize::from(count > 1);
        if let Some(wrong) = first_difference(&sorted(rows), &parts) {
            panic!("{}: {wrong}", entry.name);
        }
    }
    assert!(divided > 5, "{divided}");
}

#[test]
fn a_part_keeps_a_part_of_the_rows() {
    let (bytes, _) = large::write(Vec::new(), 4).expect("written");
    let whole = Capture::parse(&bytes).expect("a capture");
    let all = whole.requests.len() + whole.spans.len() + whole.events.len();
    let mut rows = Vec::new();
    owned(&whole, &mut rows);
    let (count, most, parts) = in_parts(&bytes, 1 << 15);
    assert!(count >= 14, "{count}");
    assert!(most < all / 10, "{most} of {all}");
    assert_eq!(first_difference(&sorted(rows), &parts), None);
}
