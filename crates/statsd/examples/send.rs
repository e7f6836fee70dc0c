//! Sends the lines of stdin to the server that the environment names: for trying a server, and for
//! the tests against real ones (`tests/statsd/run.py`).
//!
//! ```text
//! DASHCAM_STATSD=udp://127.0.0.1:8125 cargo run -p dashcam-statsd --example send <<'EOF'
//! counter  orders    5     country=at,new
//! gauge    depth     -3
//! delta    depth     1
//! timing   price     1,2.5,4/30
//! set      users     ann,bob
//! window
//! event    deployed  version 2
//! check    db        2     no answer
//! EOF
//! ```
//!
//! Fields are separated by tabs or runs of spaces; `timing`, `histogram` and `distribution` take
//! the values that were kept and, after a slash, how many they stand for. `window` sends what came
//! before it. Prints the sink's account, one `name value` a line; exit 1 when anything was lost.

use std::io::BufRead;
use std::time::Duration;

use metrics::window::{Id, Kind, Reading, Value, Window};
use statsd::{Event, ServiceCheck, Sink, Stats, Status, REASONS};

const PATIENCE: Duration = Duration::from_secs(10);

fn main() {
    let loaded = statsd::load();
    loaded.complaints.iter().for_each(|complaint| eprintln!("send: {complaint}"));
    let sink = Sink::start(loaded.config);
    if !sink.is_on() {
        eprintln!("send: found no target, wanted DASHCAM_STATSD=udp://HOST:PORT or the like");
        std::process::exit(2);
    }
    let mut window = Window::default();
    for (n, line) in std::io::stdin().lock().lines().map_while(Result::ok).enumerate() {
        if let Err(wanted) = obey(&sink, &mut window, &line) {
            eprintln!("send: line {}: found {line:?}, wanted {wanted}", n + 1);
            std::process::exit(2);
        }
    }
    sink.window(&window);
    sink.close(PATIENCE);
    let stats = sink.stats();
    print_counts(&stats);
    std::process::exit(i32::from(stats.lost().lines > 0 || !stats.adds_up()));
}

fn obey(sink: &Sink, window: &mut Window, line: &str) -> Result<(), &'static str> {
    let fields: Vec<&str> = match line.contains('\t') {
        true => line.split('\t').collect(),
        false => line.split_whitespace().collect(),
    };
    let field = |n: usize| fields.get(n).copied().unwrap_or_default();
    let (name, value) = (field(1), field(2));
    match field(0) {
        "" | "#" => return Ok(()),
        "window" => {
            window.to_ns = sys::clock::epoch_ns();
            sink.window(&std::mem::take(window));
            return Ok(());
        }
        "event" => {
            let text = fields[2..].join(" ");
            sink.event(&Event { title: name.into(), text, ..Event::default() });
            return Ok(());
        }
        "check" => {
            let status = match value {
                "0" => Status::Ok,
                "1" => Status::Warning,
                "2" => Status::Critical,
                _ => Status::Unknown,
            };
            let message = Some(fields[3..].join(" "));
            sink.service_check(&ServiceCheck {
                name: name.into(),
                status,
                message,
                ..ServiceCheck::default()
            });
            return Ok(());
        }
        _ => {}
    }
    let number = |text: &str| text.parse::<f64>().map_err(|_| "a number");
    let (kind, value) = match field(0) {
        "counter" => (Kind::Counter, Value::Count(number(value)?)),
        "gauge" => (Kind::Gauge, Value::Gauge { value: number(value)?, set: true }),
        "delta" => (Kind::Gauge, Value::Gauge { value: number(value)?, set: false }),
        "timing" => (Kind::Timing, values(value)?),
        "histogram" => (Kind::Histogram, values(value)?),
        "distribution" => (Kind::Distribution, values(value)?),
        "set" => {
            let members = value.split(',').map(Into::into).collect();
            (Kind::Set, Value::Members { members, refused: 0 })
        }
        _ => {
            return Err("counter, gauge, delta, timing, histogram, distribution, set, window, \
                        event or check")
        }
    };
    let pair = |tag: &str| -> (Box<str>, Box<str>) {
        let (key, value) = tag.split_once('=').unwrap_or((tag, ""));
        (key.into(), value.into())
    };
    let tags: Vec<_> = field(3).split(',').filter(|t| !t.is_empty()).map(pair).collect();
    window.readings.push(Reading { id: Id { kind, name: name.into(), tags: tags.into() }, value });
    Ok(())
}

fn values(text: &str) -> Result<Value, &'static str> {
    let wanted = "values like 1,2.5 or 1,2.5/10";
    let (kept, count) = text.split_once('/').unwrap_or((text, ""));
    let kept: Vec<f64> =
        kept.split(',').map(str::parse).collect::<Result<_, _>>().map_err(|_| wanted)?;
    let count = match count {
        "" => kept.len() as f64,
        count => count.parse().map_err(|_| wanted)?,
    };
    let (min, max) = (f64::NAN, f64::NAN);
    let sum = kept.iter().sum();
    Ok(Value::Values { kept, count, sum, min, max })
}

fn print_counts(stats: &Stats) {
    println!("target {}", stats.target);
    for (name, amount) in [("produced", stats.produced), ("sent", stats.sent)] {
        println!("{name}.lines {}", amount.lines);
        println!("{name}.packets {}", amount.packets);
        println!("{name}.bytes {}", amount.bytes);
    }
    println!("waiting.lines {}", stats.waiting.lines);
    for reason in REASONS.into_iter().filter(|r| stats.lost_by(*r).lines > 0) {
        println!("dropped.{} {}", reason.name(), stats.lost_by(reason).lines);
    }
    println!("without_tags {}", stats.without_tags);
    if !stats.last_error.is_empty() {
        println!("last_error {}", stats.last_error);
    }
}
