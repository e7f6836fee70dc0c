//! fastrace: local spans under a root, sent to a collector thread; the reporter drops them. Its
//! interface takes properties as texts, so the integer is formatted.

use fastrace::collector::{Config, Reporter, SpanContext, SpanRecord};
use fastrace::local::{LocalParentGuard, LocalSpan};
use fastrace::{Event, Span};

use super::{Rival, Setup};

struct Drops;

impl Reporter for Drops {
    fn report(&mut self, spans: Vec<SpanRecord>) {
        std::hint::black_box(spans);
    }
}

/// A handle; whether calls have a root.
#[derive(Clone, Copy)]
pub struct Fastrace(bool);

impl Rival for Fastrace {
    /// The guard first: it must end before its root.
    type Scope = Option<(LocalParentGuard, Span)>;

    fn off() -> Fastrace {
        Fastrace(false)
    }

    fn on(_: &Setup) -> Fastrace {
        fastrace::set_reporter(Drops, Config::default());
        Fastrace(true)
    }

    fn scope(&self) -> Self::Scope {
        self.0.then(|| {
            let root = Span::root("root", SpanContext::random());
            (root.set_local_parent(), root)
        })
    }

    #[inline]
    fn span<T>(&self, rows: u64, inside: impl FnOnce() -> T) -> T {
        let _span = LocalSpan::enter_with_local_parent("bench")
            .with_property(|| ("rows", rows.to_string()));
        inside()
    }

    #[inline]
    fn event(&self, rows: u64) {
        LocalSpan::add_event(Event::new("bench").with_property(|| ("rows", rows.to_string())));
    }
}
