//! The `prometheus` crate, and `prometheus-client`. Neither counts by name; labels that are looked
//! up at each call take the tag's place.

use std::sync::atomic::AtomicU64;

use prometheus::{IntCounter, IntCounterVec, Opts};
use prometheus_client::metrics::{counter::Counter, family::Family};

use super::Client;
use crate::rivals::Setup;

/// Crate `prometheus`.
pub struct Prometheus {
    orders: IntCounter,
    tagged: IntCounterVec,
}

impl Client for Prometheus {
    const HAS_NAME: bool = false;

    fn start(_: &Setup, _: u16) -> Result<Prometheus, String> {
        let failed = |error: prometheus::Error| error.to_string();
        let orders = IntCounter::new("orders", "orders").map_err(failed)?;
        let tagged = Opts::new("tagged_orders", "orders");
        let tagged = IntCounterVec::new(tagged, &["region"]).map_err(failed)?;
        Ok(Prometheus { orders, tagged })
    }

    #[inline]
    fn handle(&self) {
        self.orders.inc();
    }

    fn name(&self) {}

    #[inline]
    fn tag(&self) {
        self.tagged.with_label_values(&["eu"]).inc();
    }

    fn kept(&self) -> Option<u64> {
        Some(self.orders.get() + self.tagged.with_label_values(&["eu"]).get())
    }
}

/// Crate `prometheus-client`; its labels are those of its examples, names and values.
pub struct PrometheusClient {
    orders: Counter<u64, AtomicU64>,
    tagged: Family<[(&'static str, &'static str); 1], Counter<u64, AtomicU64>>,
}

const REGION: [(&str, &str); 1] = [("region", "eu")];

impl Client for PrometheusClient {
    const HAS_NAME: bool = false;

    fn start(_: &Setup, _: u16) -> Result<PrometheusClient, String> {
        Ok(PrometheusClient { orders: Counter::default(), tagged: Family::default() })
    }

    #[inline]
    fn handle(&self) {
        self.orders.inc();
    }

    fn name(&self) {}

    #[inline]
    fn tag(&self) {
        self.tagged.get_or_create(&REGION).inc();
    }

    fn kept(&self) -> Option<u64> {
        Some(self.orders.get() + self.tagged.get_or_create(&REGION).get())
    }
}
