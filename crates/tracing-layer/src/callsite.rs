//! What is known about a callsite: read once, found again by the address of its metadata.

use dashcam::{Shelf, Site};
use tracing::{field::Field, Metadata};

/// Names the request's span, instead of the name in source.
const NAMES: [&str; 2] = ["dashcam.name", "otel.name"];
/// Makes the span a request.
const REQUEST: &str = "dashcam.request";
/// Continues the caller's trace; is recorded as an attribute too.
const TRACEPARENT: &str = "traceparent";
/// Names of events without a name of their own: "event src/main.rs:12".
const UNNAMED: &str = "event ";

/// At most this many callsites, of all layers of the process.
const MOST: usize = 8192;
static CALLSITES: Shelf<Callsite, MOST> = Shelf::empty();

/// The purpose of a field.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Attribute,
    Request,
    Name,
    Traceparent,
}

/// A callsite.
pub(crate) struct Callsite {
    /// Address of its metadata, which is never freed, and the layer that read it: another layer may
    /// choose other requests.
    key: (usize, u32),
    /// Its name as a span or event.
    pub(crate) name: Site,
    /// Its name as a request.
    pub(crate) request_name: Site,
    /// It is a request whatever its fields say.
    pub(crate) is_request: bool,
    fields: Box<[(Site, Use)]>,
}

impl Callsite {
    /// The callsite of `metadata`. None: there are too many.
    pub(crate) fn find(
        metadata: &'static Metadata<'static>,
        layer: u32,
        is_request: impl FnOnce() -> bool,
    ) -> Option<&'static Callsite> {
        let key = (std::ptr::from_ref(metadata) as usize, layer);
        // Fibonacci hashing; the upper half has the mixed bits.
        let mixed = (key.0 as u64 ^ u64::from(layer)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let make = || Callsite::of(metadata, key, is_request());
        CALLSITES.find_or_add(mixed >> 32, |known| known.key == key, make).map(|found| found.1)
    }

    fn of(metadata: &'static Metadata<'static>, key: (usize, u32), is_request: bool) -> Callsite {
        let unnamed = metadata.is_event() && metadata.name().starts_with(UNNAMED);
        let name = if unnamed { metadata.target() } else { metadata.name() };
        let fields = metadata.fields().iter().map(|field| {
            let purpose = match field.name() {
                REQUEST => Use::Request,
                name if metadata.is_span() && NAMES.contains(&name) => Use::Name,
                TRACEPARENT if metadata.is_span() => Use::Traceparent,
                _ => Use::Attribute,
            };
            (Site::new(field.name()), purpose)
        });
        Callsite {
            key,
            name: Site::new(name),
            request_name: Site::new(name),
            is_request,
            fields: fields.collect(),
        }
    }

    /// The key of a field of this callsite, and its purpose.
    pub(crate) fn field(&self, field: &Field) -> Option<&(Site, Use)> {
        self.fields.get(field.index())
    }

    /// The key at `index`.
    pub(crate) fn key(&self, index: u8) -> Option<&Site> {
        self.fields.get(usize::from(index)).map(|(site, _)| site)
    }

    /// Number of fields.
    pub(crate) fn len(&self) -> usize {
        self.fields.len()
    }
}
