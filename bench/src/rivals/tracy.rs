//! Tracy's client without a viewer and not on demand: everything is kept until a viewer connects. A
//! point in time with a number is a plot point.

use tracy_client::{plot_name, span_location, Client};

use super::{Rival, Setup};

/// A handle.
#[derive(Clone, Copy)]
pub struct Tracy;

impl Rival for Tracy {
    type Scope = ();
    /// It starts with the program; only a build without it turns it off.
    const HAS_OFF: bool = false;

    fn off() -> Tracy {
        Tracy
    }

    fn on(_: &Setup) -> Tracy {
        Client::start();
        Tracy
    }

    fn scope(&self) {}

    #[inline]
    fn span<T>(&self, rows: u64, inside: impl FnOnce() -> T) -> T {
        let span = Client::running().map(|client| {
            let span = client.span(span_location!("bench"), 0);
            span.emit_value(rows);
            span
        });
        let result = inside();
        drop(span);
        result
    }

    #[inline]
    fn event(&self, rows: u64) {
        if let Some(client) = Client::running() {
            client.plot(plot_name!("bench"), rows as f64);
        }
    }

    fn end(&self) {
        // Its own shutdown waits for a viewer to take the rest.
        use std::io::Write;
        let _ = std::io::stdout().flush();
        // SAFETY: ends the process without running exit handlers; everything is printed.
        unsafe { libc::_exit(0) }
    }
}
