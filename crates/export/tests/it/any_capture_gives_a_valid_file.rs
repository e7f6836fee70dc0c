//! Empty, random and hostile captures: every format writes a file that parses, and never panics.

use crate::common;

use capture::read::{Capture, Code, EventRow, GcRow, OffCpu, StackNode, TaskRow, VitalRow};
use common::{capture, export, request, sample, span};
use export::{Format, Value};
use format::wait::WaitKind;
use prost::Message;

const VALUES: [Value; 4] = [Value::Wall, Value::Cpu, Value::OffCpu, Value::Samples];

/// Exports in every format; checks that the bytes are of it.
fn check(capture: &Capture) {
    for format in Format::ALL {
        for value in VALUES {
            let bytes = export(capture, format, value);
            assert_eq!(bytes, export(capture, format, value), "the same again");
            match format {
                Format::Pprof => {
                    let mut plain = Vec::new();
                    let mut unpack = flate2::read::GzDecoder::new(&*bytes);
                    std::io::Read::read_to_end(&mut unpack, &mut plain).expect("gzip");
                    export::pprof::Profile::decode(&*plain).expect("a profile");
                }
                Format::Perfetto => {
                    export::perfetto::proto::Trace::decode(&*bytes).expect("a trace");
                }
                Format::Folded => {
                    let text = String::from_utf8(bytes).expect("UTF-8");
                    for line in text.lines() {
                        let (stack, value) = line.rsplit_once(' ').expect("a value");
                        assert!(!stack.is_empty() && value.parse::<u64>().is_ok(), "{line:?}");
                        assert!(!stack.contains(char::is_control), "{line:?}");
                    }
                }
                Format::Otlp | Format::OtlpMetrics => common::check_otlp(&bytes),
                Format::Zipkin => common::check_zipkin(&bytes),
                Format::Speedscope | Format::Chrome => {
                    serde_json::from_slice::<serde_json::Value>(&bytes).expect("JSON");
                }
            }
        }
    }
}

#[test]
fn an_empty_capture_gives_empty_files() {
    check(&Capture::default());
    let json = |format| {
        let text = common::text(&Capture::default(), format, Value::Wall);
        serde_json::from_str::<serde_json::Value>(&text).expect("JSON")
    };
    assert_eq!(json(Format::Speedscope)["profiles"], serde_json::json!([]));
    assert_eq!(json(Format::Chrome)["traceEvents"].as_array().map(Vec::len), Some(1));
    assert_eq!(common::text(&Capture::default(), Format::Folded, Value::Wall), "");
}

#[test]
fn a_capture_with_everything_gives_files() {
    check(&capture(true));
    check(&capture(false));
}

#[test]
fn any_rows_give_files() {
    let mut word = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = || {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        // Small, near the window, anywhere.
        match word >> 62 {
            0 => word % 20,
            1 => common::T0 + word % (3000 * common::MS),
            2 => u64::MAX - word % 5,
            _ => word,
        }
    };
    for round in 0..20 {
        let mut made = capture(round % 2 == 0);
        made.meta.from_ns = if round % 3 == 0 { random() } else { made.meta.from_ns };
        made.meta.to_ns = if round % 5 == 0 { random() } else { made.meta.to_ns };
        for _ in 0..30 {
            let tid = (random() % 12) as u32;
            let mut seen = sample(tid, 0, WaitKind::from_u8(random() as u8), random() as u32, 0, 0);
            (seen.t_ns, seen.wall_ns, seen.cpu_ns) = (random(), random(), random());
            (seen.run_delay_ns, seen.target, seen.timeout_ns) = (random(), random(), random());
            (seen.lock_holder, seen.gil_holder) = (random() as u32, random() as u32);
            made.samples.entry(tid).or_default().push(seen);
            let (out_ns, in_ns) = (random(), random());
            let off = OffCpu {
                out_ns,
                in_ns: in_ns.max(out_ns),
                preempted: random() % 2 == 0,
                cpu: None,
            };
            made.off_cpu.entry(tid).or_default().push(off);
            let mut row = request(random(), random() as u32, tid, 0, 0);
            (row.begin_ns, row.started_ns) = (random(), random());
            row.end_ns = (random() % 3 > 0).then(&mut random).map(|end| end.max(row.begin_ns));
            row.on_loop = random() % 2 == 0;
            let id = row.id;
            made.requests.push(row);
            let mut inner = span(random() as u32, tid, id, 0, 0);
            (inner.begin_ns, inner.end_ns) = (random(), random());
            made.spans.push(inner);
            let (begin_ns, end_ns) = (random(), random());
            made.gcs.push(GcRow { tid, generation: 9, begin_ns, end_ns, collected: random() });
            made.tasks.push(TaskRow { tid, queued_ns: random(), begin_ns, end_ns, request: id });
            let value = f64::from_bits(random());
            made.vitals.push(VitalRow { name: random() as u32, t_ns: random(), value });
            let name = random() as u32;
            let event = EventRow { name, tid, t_ns: random(), request: id, attributes: vec![] };
            made.events.push(event);
            let code = Code {
                function: name,
                file: name,
                first_line: name,
                releases: false,
                native: false,
                inner: false,
            };
            made.codes.push(code);
            let (parent, code) = (random() as u32, random() as u32);
            made.stacks.push(StackNode { parent, code, line: name });
        }
        made.samples.values_mut().for_each(|rows| rows.sort_by_key(|s| s.t_ns));
        // As the reader leaves them: one after the other.
        for rows in made.off_cpu.values_mut() {
            rows.sort_by_key(|o| o.out_ns);
            for i in 1..rows.len() {
                rows[i - 1].in_ns = rows[i - 1].in_ns.min(rows[i].out_ns);
            }
        }
        check(&made);
    }
}
