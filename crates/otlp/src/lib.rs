//! OTLP: spans and metrics as the bytes of `ExportTraceServiceRequest` and
//! `ExportMetricsServiceRequest`, and a way to post them to a collector over HTTP/1.1, plain or
//! over a wrapper that the caller puts around the connection (TLS, in the command).
//!
//! How it works: `traces` and `metrics` turn plain values into protobuf by hand (`wire`): the few
//! messages that are needed have fixed numbers, so neither a code generator nor a library comes
//! into the host. `http` sends a body and reads the answer, every step of it within a deadline.
//! `endpoint` reads addresses, `env` the variables that OpenTelemetry's own SDKs read.
//!
//! What it promises: any value gives a valid message; ids of zeros are never written; text is
//! UTF-8. No thread, no queue, no retry: the caller decides (`dashcam` in the host, `dashcam export
//! --post` in a reader), so both sides may use it.
//!
//! What is missing on purpose: TLS of its own (a collector beside the service needs none), gRPC,
//! compression, JSON, logs, and profiles, whose schema is `v1development` and still changes.
//!
//! Field numbers: github.com/open-telemetry/opentelemetry-proto, `trace/v1`, `metrics/v1`,
//! `common/v1`, `resource/v1`, `collector/*/v1`, version 1.

pub mod endpoint;
pub mod env;
pub mod http;
pub mod metrics;
pub mod traces;
pub mod value;
pub mod wire;

pub use endpoint::Endpoint;
pub use traces::{Kind, Link, Moment, Span, Status};
pub use value::{uuid, Attribute, Resource, Scope, Value};
