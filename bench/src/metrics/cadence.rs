//! cadence, a StatsD client: a datagram for each call, buffered, and both behind its queue with a
//! thread. The queue has no bound, as by default. It has no handles.

use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration;

use cadence::prelude::*;
use cadence::{
    BufferedUdpMetricSink, MetricSink, QueuingMetricSink, SinkStats, StatsdClient, UdpMetricSink,
};

use super::Client;
use crate::rivals::Setup;

/// The client takes ownership of its sink; this is a second way to it.
struct Shared<S>(Arc<S>);

impl<S: MetricSink> MetricSink for Shared<S> {
    fn emit(&self, line: &str) -> std::io::Result<usize> {
        self.0.emit(line)
    }

    fn flush(&self) -> std::io::Result<()> {
        self.0.flush()
    }

    fn stats(&self) -> SinkStats {
        self.0.stats()
    }
}

fn client<S>(sink: S) -> (StatsdClient, Arc<S>)
where
    S: MetricSink + Send + Sync + std::panic::RefUnwindSafe + 'static,
{
    let sink = Arc::new(sink);
    (StatsdClient::from_sink("rival", Shared(sink.clone())), sink)
}

fn socket() -> Result<UdpSocket, String> {
    UdpSocket::bind("127.0.0.1:0").map_err(|error| error.to_string())
}

fn udp(port: u16) -> Result<UdpMetricSink, String> {
    UdpMetricSink::from(("127.0.0.1", port), socket()?).map_err(|error| error.to_string())
}

fn buffered(port: u16) -> Result<BufferedUdpMetricSink, String> {
    BufferedUdpMetricSink::from(("127.0.0.1", port), socket()?).map_err(|error| error.to_string())
}

fn wait_for(queue: &QueuingMetricSink) {
    while queue.queued() > 0 {
        std::thread::sleep(Duration::from_micros(200));
    }
    let _ = queue.flush();
}

macro_rules! of_cadence {
    ($(#[$doc:meta])* $name:ident, $sink:ty, $turns:expr, $plain:expr, $make:expr, $rest:expr) => {
        $(#[$doc])*
        pub struct $name(StatsdClient, Arc<$sink>);

        impl Client for $name {
            const SENDS: bool = true;
            const DATAGRAM_A_CALL: bool = $plain;
            const HAS_HANDLE: bool = false;
            const TURNS: u64 = $turns;

            fn start(_: &Setup, port: u16) -> Result<$name, String> {
                let make: fn(u16) -> Result<$sink, String> = $make;
                let (client, sink) = client(make(port)?);
                Ok($name(client, sink))
            }

            fn handle(&self) {}

            #[inline]
            fn name(&self) {
                let _ = self.0.count("orders", 1);
            }

            #[inline]
            fn tag(&self) {
                self.0.count_with_tags("orders", 1).with_tag("region", "eu").send();
            }

            fn rest(&self) {
                let rest: fn(&$sink) = $rest;
                rest(&self.1);
            }

            fn lost(&self) -> u64 {
                self.1.stats().packets_dropped
            }

            fn end(&self) {
                self.rest();
                // The worker may hold the last line still.
                std::thread::sleep(Duration::from_millis(50));
                self.rest();
            }
        }
    };
}

of_cadence!(
    /// A datagram for each call, by the caller.
    Udp, UdpMetricSink, 20_000, true, udp, |_| ()
);
of_cadence!(
    /// Lines packed under a lock; the caller that fills a datagram sends it.
    Buffered, BufferedUdpMetricSink, 200_000, false, buffered, |sink| {
        let _ = sink.flush();
    }
);
of_cadence!(
    /// A thread sends a datagram for each line.
    Queuing, QueuingMetricSink, 50_000, true,
    |port| Ok(QueuingMetricSink::from(udp(port)?)), wait_for
);
of_cadence!(
    /// A thread packs lines.
    QueuingBuffered, QueuingMetricSink, 200_000, false,
    |port| Ok(QueuingMetricSink::from(buffered(port)?)), wait_for
);
