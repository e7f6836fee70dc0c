//! The `metrics` facade, over dashcam and over metrics-exporter-prometheus. By name is its macro.

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use super::{dashcam as ours, Client};
use crate::rivals::{dashcam::Dashcam as Recorder, Rival, Setup};

/// Through dashcam's recorder of the facade.
pub struct OverDashcam {
    recorder: Recorder,
    orders: metrics::Counter,
}

impl Client for OverDashcam {
    const SENDS: bool = true;

    fn start(setup: &Setup, port: u16) -> Result<OverDashcam, String> {
        let recorder = ours::start(setup, port);
        dashcam_metrics_facade::install().map_err(|error| error.to_string())?;
        Ok(OverDashcam { recorder, orders: metrics::counter!("orders") })
    }

    #[inline]
    fn handle(&self) {
        self.orders.increment(1);
    }

    #[inline]
    fn name(&self) {
        metrics::counter!("orders").increment(1);
    }

    #[inline]
    fn tag(&self) {
        metrics::counter!("orders", "region" => "eu").increment(1);
    }

    fn rest(&self) {
        dashcam::flush();
    }

    fn lost(&self) -> u64 {
        ours::lost()
    }

    fn end(&self) {
        dashcam::flush();
        self.recorder.end();
    }
}

/// Through the recorder of metrics-exporter-prometheus, without its endpoint.
pub struct OverPrometheus {
    scrape: PrometheusHandle,
    orders: metrics::Counter,
}

impl Client for OverPrometheus {
    fn start(_: &Setup, _: u16) -> Result<OverPrometheus, String> {
        let recorder = PrometheusBuilder::new().build_recorder();
        let scrape = recorder.handle();
        metrics::set_global_recorder(recorder).map_err(|error| error.to_string())?;
        Ok(OverPrometheus { scrape, orders: metrics::counter!("orders") })
    }

    #[inline]
    fn handle(&self) {
        self.orders.increment(1);
    }

    #[inline]
    fn name(&self) {
        metrics::counter!("orders").increment(1);
    }

    #[inline]
    fn tag(&self) {
        metrics::counter!("orders", "region" => "eu").increment(1);
    }

    fn kept(&self) -> Option<u64> {
        let text = self.scrape.render();
        let samples = text.lines().filter(|line| line.starts_with("orders"));
        Some(samples.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum())
    }
}
