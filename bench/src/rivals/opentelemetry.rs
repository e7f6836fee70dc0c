//! OpenTelemetry's SDK with a processor that drops every span. It has no point in time outside a
//! span.

use opentelemetry::trace::{Span, Tracer, TracerProvider};
use opentelemetry::KeyValue;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider, SpanData, SpanProcessor};
use opentelemetry_sdk::Resource;

use super::{Rival, Setup};

#[derive(Debug)]
struct Drops;

impl SpanProcessor for Drops {
    fn on_start(&self, _: &mut opentelemetry_sdk::trace::Span, _: &opentelemetry::Context) {}

    fn on_end(&self, span: SpanData) {
        std::hint::black_box(span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: std::time::Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// A handle.
#[derive(Clone, Copy)]
pub struct OpenTelemetry(&'static SdkTracer);

fn made(sampler: Sampler) -> OpenTelemetry {
    let resource = Resource::builder_empty().build();
    let provider = SdkTracerProvider::builder()
        .with_resource(resource)
        .with_sampler(sampler)
        .with_span_processor(Drops)
        .build();
    let tracer = provider.tracer("bench");
    // A provider that is dropped shuts its tracers down.
    std::mem::forget(provider);
    OpenTelemetry(Box::leak(Box::new(tracer)))
}

impl Rival for OpenTelemetry {
    type Scope = ();
    const HAS_EVENTS: bool = false;

    fn off() -> Self {
        made(Sampler::AlwaysOff)
    }

    fn on(_: &Setup) -> Self {
        made(Sampler::AlwaysOn)
    }

    fn scope(&self) {}

    #[inline]
    fn span<T>(&self, rows: u64, inside: impl FnOnce() -> T) -> T {
        let mut span = self.0.start("bench");
        span.set_attribute(KeyValue::new("rows", rows as i64));
        let result = inside();
        span.end();
        result
    }

    fn event(&self, rows: u64) {
        // For churn only: three spans take the place of the three events.
        self.span(rows, || ());
    }
}
