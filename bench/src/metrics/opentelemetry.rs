//! OpenTelemetry's counter. Without a reader its instruments do nothing, so there is a reader that
//! does not read while calls are measured. It counts by instrument, not by name.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::metrics::{Counter, MeterProvider};
use opentelemetry::KeyValue;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData, ResourceMetrics};
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider, Temporality};
use opentelemetry_sdk::Resource;

use super::Client;
use crate::rivals::Setup;

/// An exporter that adds up the exported values.
struct Adds(Arc<AtomicU64>);

impl PushMetricExporter for Adds {
    fn export(&self, exported: &ResourceMetrics) -> impl Future<Output = OTelSdkResult> + Send {
        let metrics = exported.scope_metrics().flat_map(|scope| scope.metrics());
        let sums = metrics.map(|metric| match metric.data() {
            AggregatedMetrics::U64(MetricData::Sum(sum)) => {
                sum.data_points().map(|point| point.value()).sum()
            }
            _ => 0,
        });
        self.0.store(sums.sum(), Ordering::Release);
        std::future::ready(Ok(()))
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }

    fn temporality(&self) -> Temporality {
        Temporality::Cumulative
    }
}

/// The instrument.
pub struct OpenTelemetry {
    provider: SdkMeterProvider,
    sum: Arc<AtomicU64>,
    orders: Counter<u64>,
}

impl Client for OpenTelemetry {
    const HAS_NAME: bool = false;

    fn start(_: &Setup, _: u16) -> Result<OpenTelemetry, String> {
        let sum = Arc::new(AtomicU64::new(0));
        let reader = PeriodicReader::builder(Adds(sum.clone()));
        let reader = reader.with_interval(Duration::from_secs(3600)).build();
        let resource = Resource::builder_empty().build();
        let provider =
            SdkMeterProvider::builder().with_resource(resource).with_reader(reader).build();
        let orders = provider.meter("bench").u64_counter("orders").build();
        Ok(OpenTelemetry { provider, sum, orders })
    }

    #[inline]
    fn handle(&self) {
        self.orders.add(1, &[]);
    }

    fn name(&self) {}

    #[inline]
    fn tag(&self) {
        self.orders.add(1, &[KeyValue::new("region", "eu")]);
    }

    fn kept(&self) -> Option<u64> {
        self.provider.force_flush().ok()?;
        Some(self.sum.load(Ordering::Acquire))
    }
}
