//! dashcam, through its public interface.

use std::path::Path;

use dashcam::Value;

use super::{Rival, Setup};

/// A handle: the interned names.
#[derive(Clone, Copy)]
pub struct Dashcam {
    span: u32,
    event: u32,
    rows: u32,
}

fn name(text: &str) -> u32 {
    dashcam::current().map_or(0, |recorder| recorder.tables().name(text))
}

fn given(setup: &Setup) -> Vec<(String, String)> {
    let out = setup.out.display().to_string();
    let memory = format!("{}MiB", setup.ring_bytes >> 20);
    let settings = [
        ("service", "bench"),
        ("out", &out),
        ("memory", &memory),
        // Nothing slow happens here, and a capture in between would be measured too.
        ("slow", "1h"),
        // The ring is full long before this.
        ("window", "1h"),
        ("keep", "3"),
        ("keep_bytes", "16GiB"),
        ("rate_hz", if setup.counting { "1" } else { "100" }),
        ("switches", if setup.counting { "off" } else { "on" }),
    ];
    settings.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect()
}

static GIVEN: std::sync::OnceLock<Vec<(String, String)>> = std::sync::OnceLock::new();

fn start(given: &[(String, String)]) {
    if let Err(error) = dashcam::start_with_runtime(given, dashcam::Runtime::default()) {
        eprintln!("dashcam did not start: {error}");
        std::process::exit(1);
    }
}

impl Dashcam {
    /// A span without attributes: the tightest rows of the documents are about these.
    #[inline]
    pub fn bare_span<T>(&self, inside: impl FnOnce() -> T) -> T {
        let begin = if dashcam::is_on() { dashcam::now_ns() } else { 0 };
        let result = inside();
        dashcam::span(self.span, begin, 0, false, &[]);
        result
    }

    /// An event without attributes.
    #[inline]
    pub fn bare_event(&self) {
        dashcam::event(self.event, 0, &[]);
    }
}

impl Rival for Dashcam {
    type Scope = ();
    const CAN_TOGGLE: bool = true;
    const HAS_DUMP: bool = true;

    fn off() -> Dashcam {
        Dashcam { span: 0, event: 0, rows: 0 }
    }

    fn on(setup: &Setup) -> Dashcam {
        start(GIVEN.get_or_init(|| given(setup)));
        Dashcam { span: name("bench.span"), event: name("bench.event"), rows: name("rows") }
    }

    fn scope(&self) {}

    #[inline]
    fn span<T>(&self, rows: u64, inside: impl FnOnce() -> T) -> T {
        let begin = if dashcam::is_on() { dashcam::now_ns() } else { 0 };
        let result = inside();
        dashcam::span(self.span, begin, 0, false, &[(self.rows, Value::Int(rows as i64))]);
        result
    }

    #[inline]
    fn event(&self, rows: u64) {
        dashcam::event(self.event, 0, &[(self.rows, Value::Int(rows as i64))]);
    }

    fn toggle(&self, on: bool) {
        match (on, GIVEN.get()) {
            (true, Some(given)) => start(given),
            _ => dashcam::stop(),
        }
    }

    fn dump(&self, path: &Path) -> std::io::Result<u64> {
        let written = dashcam::snap("bench").map_err(std::io::Error::other)?;
        let bytes = std::fs::metadata(&written)?.len();
        std::fs::rename(written, path)?;
        Ok(bytes)
    }

    fn end(&self) {
        dashcam::before_exit();
    }
}
