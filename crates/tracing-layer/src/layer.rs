//! The layer: what it does when a span is created, entered, left and closed, and at each event.
//!
//! How it works: a new span's data go into its extensions. An entry of a request makes it the
//! current request of the thread; an exit restores the previous one and, on another thread than the
//! request's first, writes a task. The close writes the span's record, or the request's end.
//! Entries and exits of other spans are skipped by a filter, a table of counters indexed by a hash
//! of the span id, unless busy times are on.
//!
//! What it promises: while nothing records, one load and a branch for each call. A span that
//! outlives a fork or the recorder is not recorded: its epoch differs. Missing on purpose: see the
//! crate's header.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, ThreadId};

use dashcam::{Attribute, Held, OpenPlace, Request, Site, SpanKey, Value};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, SpanRef};

use crate::callsite::Callsite;
use crate::fields::{Kept, OnStack, Visitor};

/// Which spans are requests, besides those with the field.
type Chooser = Box<dyn Fn(&Metadata<'_>) -> bool + Send + Sync>;

/// Counters in the filter of open requests; a power of two.
const SIEVE: usize = 1024;

/// Records spans and events into dashcam. Add it to a `Registry`; start dashcam before or after.
pub struct Layer {
    /// Distinguishes the layers of one process.
    number: u32,
    chooser: Option<Chooser>,
    on_loop: bool,
    busy: bool,
    /// How many open requests have a span id that hashes to each counter. 0 saves a lookup of the
    /// span at each entry and exit. Relaxed: a span's entry follows its creation.
    sieve: Box<[AtomicU32]>,
}

/// A span's data, in its extensions.
struct Open {
    callsite: &'static Callsite,
    epoch: u32,
    begin_ns: u64,
    /// The request it belongs to, itself included.
    request: u64,
    /// The thread it began on.
    tid: u32,
    /// Its parent, if the parent was recorded too.
    parent: Option<SpanKey>,
    /// Where captures find it while it is open.
    place: OpenPlace,
    /// If it is a request: its identity, name, and where it began.
    own: Option<(Request, u32, ThreadId)>,
    failed: bool,
    fields: Kept,
    /// The thread that entered it.
    entered: Option<Entered>,
    /// Last exit; before the first exit, the begin.
    left_ns: u64,
    busy_ns: u64,
}

#[derive(Clone, Copy)]
struct Entered {
    thread: ThreadId,
    depth: u32,
    since_ns: u64,
    outer: u64,
}

impl Default for Layer {
    fn default() -> Layer {
        Layer::new()
    }
}

impl Layer {
    /// Requests are the spans with a field `dashcam.request = true`.
    #[must_use]
    pub fn new() -> Layer {
        static NUMBERS: AtomicU32 = AtomicU32::new(0);
        Layer {
            // Relaxed: only uniqueness matters.
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            chooser: None,
            on_loop: false,
            busy: false,
            sieve: (0..SIEVE).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// Also chooses spans that the program does not make itself, like those of an HTTP server's
    /// middleware. Asked once for each place in source.
    ///
    /// ```
    /// let layer = dashcam_tracing::Layer::new().requests(|metadata| {
    ///     metadata.target() == "tower_http::trace::make_span" && metadata.name() == "request"
    /// });
    /// # drop(layer);
    /// ```
    #[must_use]
    pub fn requests(
        mut self,
        choose: impl Fn(&Metadata<'_>) -> bool + Send + Sync + 'static,
    ) -> Layer {
        self.chooser = Some(Box::new(choose));
        self
    }

    /// Says that threads serve many requests in turns (an async runtime), so that the thread's work
    /// is not blamed on one of them.
    #[must_use]
    pub fn on_event_loop(mut self, yes: bool) -> Layer {
        self.on_loop = yes;
        self
    }

    /// Adds the attribute `busy_ns`, the time for which a span was entered, to every span. Costs
    /// two lookups of the span and two clock reads for each entry.
    #[must_use]
    pub fn busy_time(mut self, yes: bool) -> Layer {
        self.busy = yes;
        self
    }

    #[inline]
    fn callsite(&self, metadata: &'static Metadata<'static>) -> Option<&'static Callsite> {
        let chosen = || {
            let choose = self.chooser.as_ref().filter(|_| metadata.is_span());
            choose.is_some_and(|choose| choose(metadata))
        };
        let found = Callsite::find(metadata, self.number, chosen);
        if found.is_none() {
            dashcam::lost_name();
        }
        found
    }

    #[inline]
    fn sieve(&self, id: &Id) -> &AtomicU32 {
        let mixed = id.into_u64().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.sieve[(mixed >> 32) as usize % SIEVE]
    }

    /// Whether an entry or exit of this span has to be recorded.
    #[inline]
    fn matters(&self, id: &Id) -> bool {
        self.busy || self.sieve(id).load(Ordering::Relaxed) != 0
    }
}

/// The request that work inside `span` belongs to.
fn request_of<'a, R: LookupSpan<'a>>(span: &SpanRef<'a, R>, epoch: u32) -> Option<u64> {
    let extensions = span.extensions();
    extensions.get::<Open>().filter(|open| open.epoch == epoch).map(|open| open.request)
}

/// The source of the id of `span`.
fn key_of<'a, R: LookupSpan<'a>>(span: &SpanRef<'a, R>, epoch: u32) -> Option<SpanKey> {
    let extensions = span.extensions();
    extensions.get::<Open>().filter(|open| open.epoch == epoch).map(Open::key)
}

impl<S> tracing_subscriber::Layer<S> for Layer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let epoch = dashcam::door();
        if epoch == 0 {
            return;
        }
        let Some(callsite) = self.callsite(attributes.metadata()) else { return };
        let Some(span) = context.span(id) else { return };
        let above = span.parent().and_then(|parent| request_of(&parent, epoch));
        let outer = match attributes.is_root() {
            true => 0,
            false => above.unwrap_or_else(dashcam::current_request),
        };
        let mut fields = Kept::for_fields(callsite.len());
        let (mut request, mut renamed, mut caller) = (false, None, None);
        if callsite.len() > 0 {
            let store = &mut fields;
            let mut visitor = Visitor { callsite, store, request, renamed, parent: None, epoch };
            attributes.record(&mut visitor);
            (request, renamed, caller) = (visitor.request, visitor.renamed, visitor.parent);
        }
        let own = (request || callsite.is_request).then(|| {
            let name = renamed.unwrap_or_else(|| callsite.request_name.request_id(epoch));
            self.sieve(id).fetch_add(1, Ordering::Relaxed);
            (Request::begin(name, self.on_loop, 0), name, thread::current().id())
        });
        let begin_ns = own.as_ref().map_or_else(dashcam::now_ns, |(own, ..)| own.begin_ns);
        let request = own.as_ref().map_or(outer, |(own, ..)| own.id);
        let place = match own {
            Some(_) => OpenPlace::NONE,
            None => dashcam::begin_span(callsite.name.id(epoch), begin_ns, request),
        };
        let parent = if attributes.is_root() { None } else { span.parent() };
        let parent = parent.and_then(|parent| key_of(&parent, epoch));
        let open = Open {
            callsite,
            epoch,
            begin_ns,
            request,
            tid: dashcam::this_thread(),
            parent,
            place,
            own,
            failed: false,
            fields,
            entered: None,
            left_ns: begin_ns,
            busy_ns: 0,
        };
        open.go_on(caller);
        // Not `insert`, which panics when a second layer of this crate was there before.
        span.extensions_mut().replace(open);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let epoch = dashcam::on_epoch();
        if epoch == 0 {
            return;
        }
        let Some(span) = context.span(id) else { return };
        let belongs = |open: &&Open| open.epoch == epoch;
        let Some(callsite) = span.extensions().get::<Open>().filter(belongs).map(|o| o.callsite)
        else {
            return;
        };
        // Stored before the span is locked: a `Debug` of the host's may itself record.
        let mut fields = OnStack::new();
        let store = &mut fields;
        let mut visitor =
            Visitor { callsite, store, request: false, renamed: None, parent: None, epoch };
        values.record(&mut visitor);
        let (renamed, caller) = (visitor.renamed, visitor.parent);
        let mut extensions = span.extensions_mut();
        let Some(open) = extensions.get_mut::<Open>() else { return };
        open.fields.merge(&fields);
        open.go_on(caller);
        if let (Some(renamed), Some((own, name, _))) = (renamed, &mut open.own) {
            *name = renamed;
            own.rename(renamed);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let epoch = dashcam::door();
        if epoch == 0 {
            return;
        }
        let Some(callsite) = self.callsite(event.metadata()) else { return };
        let span = context.event_span(event);
        if let Some(span) = span.as_ref().filter(|_| *event.metadata().level() == Level::ERROR) {
            if let Some(open) = span.extensions_mut().get_mut::<Open>() {
                open.failed = true;
            }
        }
        let above = span.and_then(|span| request_of(&span, epoch));
        let request = match event.is_root() {
            true => 0,
            false => above.unwrap_or_else(dashcam::current_request),
        };
        let name = callsite.name.id(epoch);
        if callsite.len() == 0 {
            return dashcam::event(name, request, &[]);
        }
        let mut fields = OnStack::new();
        let store = &mut fields;
        let mut visitor =
            Visitor { callsite, store, request: false, renamed: None, parent: None, epoch };
        event.record(&mut visitor);
        fields.list(callsite, epoch, |list| dashcam::event(name, request, list));
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        if !self.matters(id) {
            return;
        }
        let Some(span) = context.span(id) else { return };
        if let Some(open) = span.extensions_mut().get_mut::<Open>() {
            open.enter();
        };
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        if !self.matters(id) {
            return;
        }
        let Some(span) = context.span(id) else { return };
        if let Some(open) = span.extensions_mut().get_mut::<Open>() {
            open.leave();
        };
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        if dashcam::on_epoch() == 0 && !self.matters(&id) {
            return;
        }
        let Some(span) = context.span(&id) else { return };
        // Left where it is: the registry frees it next.
        let extensions = span.extensions();
        let Some(open) = extensions.get::<Open>() else { return };
        if open.own.is_some() {
            self.sieve(&id).fetch_sub(1, Ordering::Relaxed);
        }
        open.record(self.busy, self.on_loop);
        dashcam::end_span(open.place, open.begin_ns);
    }
}

impl Open {
    /// Entered on a second thread at the same time: only the first one counts.
    fn enter(&mut self) {
        let thread = thread::current().id();
        match &mut self.entered {
            Some(entered) if entered.thread == thread => entered.depth += 1,
            Some(_) => {}
            None => {
                let outer = match self.own {
                    Some((own, ..)) if self.epoch == dashcam::epoch() => {
                        dashcam::swap_current_request(own.id)
                    }
                    _ => 0,
                };
                let since_ns = dashcam::now_ns();
                self.entered = Some(Entered { thread, depth: 1, since_ns, outer });
            }
        }
    }

    fn leave(&mut self) {
        static TASK: Site = Site::new("task");
        let thread = thread::current().id();
        let Some(entered) = self.entered.as_mut().filter(|e| e.thread == thread) else { return };
        entered.depth -= 1;
        if entered.depth > 0 {
            return;
        }
        let (since_ns, outer) = (entered.since_ns, entered.outer);
        self.entered = None;
        let queued_ns = std::mem::replace(&mut self.left_ns, dashcam::now_ns());
        self.busy_ns += self.left_ns.saturating_sub(since_ns);
        let (Some((own, _, home)), true) = (&self.own, self.epoch == dashcam::epoch()) else {
            return;
        };
        if dashcam::current_request() == own.id {
            dashcam::swap_current_request(outer);
        }
        if *home != thread {
            dashcam::task(TASK.id(self.epoch), queued_ns, since_ns, own.id);
        }
    }

    /// A request continues the trace of its caller, if the header is valid.
    fn go_on(&self, caller: Option<Held>) {
        let caller = caller.as_ref().and_then(Held::value);
        if let (Some((own, ..)), Some(Value::Text(header))) = (&self.own, caller) {
            dashcam::continue_trace(own.id, header, "");
        }
    }

    fn key(&self) -> SpanKey {
        let request = self.own.as_ref().map_or(0, |(own, ..)| own.id);
        SpanKey { tid: self.tid, begin_ns: self.begin_ns, request }
    }

    /// Whether times and threads alone show the parent.
    fn is_plain(&self, on_loop: bool) -> bool {
        let elsewhere = self.parent.is_some_and(|parent| parent.tid != self.tid);
        !on_loop && !elsewhere && self.tid == dashcam::this_thread()
    }

    fn record(&self, busy: bool, on_loop: bool) {
        static BUSY: Site = Site::new("busy_ns");
        // The process forked in between: the span belongs to the parent process.
        if self.epoch != dashcam::epoch() {
            return;
        }
        let busy_ns = i64::try_from(self.busy_ns).unwrap_or(i64::MAX);
        let busy: Option<Attribute<'_>> = busy.then(|| (BUSY.id(self.epoch), Value::Int(busy_ns)));
        self.fields.list(self.callsite, self.epoch, busy, |list| match self.own {
            Some((own, name, _)) => own.end(name, self.failed, list),
            None => {
                let name = self.callsite.name.id(self.epoch);
                dashcam::span(name, self.begin_ns, self.request, self.failed, list);
                if !self.is_plain(on_loop) {
                    dashcam::record_span_ids(self.key(), self.parent, self.request);
                }
            }
        });
    }
}
