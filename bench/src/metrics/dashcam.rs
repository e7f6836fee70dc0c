//! dashcam, recording as by default, with the StatsD sink on.

use super::Client;
use crate::rivals::{dashcam::Dashcam as Recorder, Rival, Setup};

/// The counter, bound.
pub struct Dashcam {
    recorder: Recorder,
    orders: dashcam::Counter,
}

/// Starts the recorder; its sink sends to `port`, without metrics about itself.
pub fn start(setup: &Setup, port: u16) -> Recorder {
    let others = ["DD_", "STATSD_", "DASHCAM_"];
    for (name, _) in std::env::vars_os() {
        if others.iter().any(|other| name.to_string_lossy().starts_with(other)) {
            std::env::remove_var(name);
        }
    }
    std::env::set_var("DASHCAM_STATSD", format!("udp://127.0.0.1:{port}"));
    std::env::set_var("DASHCAM_STATSD_SELF", "off");
    Recorder::on(setup)
}

/// A number of `status`'s part about StatsD; the values of an object are added up.
fn number(status: &str, name: &str) -> u64 {
    let Some((_, rest)) = status.split_once(&format!("\"{name}\":")) else { return 0 };
    let rest = rest.trim_start();
    let text = match rest.strip_prefix('{') {
        Some(object) => object.split('}').next().unwrap_or(""),
        None => rest.split([',', '}']).next().unwrap_or(""),
    };
    text.split(',').filter_map(|part| part.rsplit(':').next()?.trim().parse::<u64>().ok()).sum()
}

/// Lines that the sink reports as lost. Here a line is more than one count, so with a lost line the
/// accounts cannot be closed to the count, and that is reported.
pub fn lost() -> u64 {
    number(&dashcam::status_json(), "dropped_lines")
}

impl Client for Dashcam {
    const SENDS: bool = true;

    fn start(setup: &Setup, port: u16) -> Result<Dashcam, String> {
        let recorder = start(setup, port);
        Ok(Dashcam { recorder, orders: dashcam::counter("orders") })
    }

    #[inline]
    fn handle(&self) {
        self.orders.inc();
    }

    #[inline]
    fn name(&self) {
        dashcam::counter("orders").inc();
    }

    #[inline]
    fn tag(&self) {
        dashcam::metric("orders").tag("region", "eu").counter().inc();
    }

    fn rest(&self) {
        dashcam::flush();
    }

    fn lost(&self) -> u64 {
        lost()
    }

    fn end(&self) {
        dashcam::flush();
        self.recorder.end();
    }
}
