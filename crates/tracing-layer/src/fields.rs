//! The values of fields, stored as attributes.

use std::fmt::Debug;

use dashcam::{Attribute, Held, Value};
use tracing::field::{Field, Visit};

use crate::callsite::{Callsite, Use};

/// Fields kept for a span or event: one more than a record takes, so that the record counts the
/// cut.
pub(crate) const MOST: usize = 9;

/// Where a visitor puts the fields that it finds.
pub(crate) trait Store {
    /// False: there was no room.
    fn put(&mut self, index: u8, value: Held) -> bool;
}

/// An event's, on the stack.
pub(crate) struct OnStack {
    values: [(u8, Held); MOST],
    len: usize,
}

impl OnStack {
    pub(crate) fn new() -> OnStack {
        OnStack { values: [const { (0, Held::Later) }; MOST], len: 0 }
    }
}

impl Store for OnStack {
    fn put(&mut self, index: u8, value: Held) -> bool {
        let Some(place) = self.values.get_mut(self.len) else { return false };
        *place = (index, value);
        self.len += 1;
        true
    }
}

/// A span's, with its data. Takes no memory for a span without fields.
pub(crate) struct Kept(Vec<(u8, Held)>);

impl Kept {
    pub(crate) fn for_fields(count: usize) -> Kept {
        Kept(Vec::with_capacity(count.min(MOST)))
    }
}

impl Store for Kept {
    /// A field that is recorded again takes its new value.
    fn put(&mut self, index: u8, value: Held) -> bool {
        if let Some((_, old)) = self.0.iter_mut().find(|(i, _)| *i == index) {
            *old = value;
            return true;
        }
        let room = self.0.len() < MOST;
        if room {
            self.0.push((index, value));
        }
        room
    }
}

impl Kept {
    /// Adds fields that were recorded later.
    pub(crate) fn merge(&mut self, later: &OnStack) {
        for (index, value) in &later.values[..later.len] {
            if !self.put(*index, *value) {
                dashcam::lost_attribute();
            }
        }
    }
}

/// Stores the fields of one span or event.
pub(crate) struct Visitor<'v, S: Store> {
    pub(crate) callsite: &'static Callsite,
    pub(crate) store: &'v mut S,
    /// `dashcam.request` was there, and true.
    pub(crate) request: bool,
    /// The name id that `dashcam.name` or `otel.name` gave.
    pub(crate) renamed: Option<u32>,
    /// `traceparent` was there.
    pub(crate) parent: Option<Held>,
    pub(crate) epoch: u32,
}

impl<S: Store> Visitor<'_, S> {
    /// `value` is made only for fields that become attributes.
    fn take(&mut self, field: &Field, value: impl FnOnce() -> Held) {
        match self.callsite.field(field) {
            Some((_, purpose @ (Use::Attribute | Use::Traceparent))) => {
                let value = value();
                if *purpose == Use::Traceparent {
                    self.parent = Some(value);
                }
                let index = u8::try_from(field.index());
                let kept = index.is_ok_and(|index| self.store.put(index, value));
                if !kept {
                    dashcam::lost_attribute();
                }
            }
            Some((_, Use::Name)) => {
                if let Some(Value::Text(text)) = value().value() {
                    self.renamed = Some(dashcam::dynamic_request(self.epoch, text));
                }
            }
            _ => {}
        }
    }
}

impl<S: Store> Visit for Visitor<'_, S> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.take(field, || value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.take(field, || value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.take(field, || value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        if self.callsite.field(field).is_some_and(|(_, purpose)| *purpose == Use::Request) {
            self.request = value;
        }
        self.take(field, || value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.take(field, || value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.take(field, || Held::debug(value));
    }
}

/// Calls `with` with the attributes, `busy` first.
fn listed(
    values: &[(u8, Held)],
    callsite: &Callsite,
    epoch: u32,
    busy: Option<Attribute<'_>>,
    with: impl FnOnce(&[Attribute<'_>]),
) {
    let mut list: [Attribute<'_>; MOST + 1] = [(0, Value::Bool(false)); MOST + 1];
    let known = values
        .iter()
        .filter_map(|(index, held)| Some((callsite.key(*index)?.id(epoch), held.value()?)));
    for _ in values.iter().filter(|(_, held)| held.is_cut()) {
        dashcam::lost_attribute();
    }
    let mut len = 0;
    for (place, attribute) in list.iter_mut().zip(busy.into_iter().chain(known)) {
        *place = attribute;
        len += 1;
    }
    with(&list[..len]);
}

impl OnStack {
    pub(crate) fn list(
        &self,
        callsite: &Callsite,
        epoch: u32,
        with: impl FnOnce(&[Attribute<'_>]),
    ) {
        listed(&self.values[..self.len], callsite, epoch, None, with);
    }
}

impl Kept {
    /// `busy` comes first, so that it is never cut.
    pub(crate) fn list(
        &self,
        callsite: &Callsite,
        epoch: u32,
        busy: Option<Attribute<'_>>,
        with: impl FnOnce(&[Attribute<'_>]),
    ) {
        listed(&self.0, callsite, epoch, busy, with);
    }
}
