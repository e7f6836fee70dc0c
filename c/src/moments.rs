//! Names, spans, events, requests, tasks.

use std::ffi::{c_char, c_int};

use dashcam::{Attribute, OpenPlace, Request, Value};

use crate::codes::{code, guarded, Done, Failed, DASHCAM_E_HANDLE, DASHCAM_OK};
use crate::process::{awake, epoch, off};
use crate::text::{copy_out, slice, text};

/// A text as a number; from dashcam_name. 0 is none.
pub type dashcam_name_t = u32;

/// The kind of an attribute's value.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum dashcam_kind {
    /// `value.integer`
    DASHCAM_INTEGER = 0,
    /// `value.number`
    DASHCAM_NUMBER = 1,
    /// `value.truth`, 0 or not
    DASHCAM_TRUTH = 2,
    /// `value.text`: UTF-8, at most 64 bytes are kept, of an event 512; NULL leaves the attribute
    /// out
    DASHCAM_TEXT = 3,
}

/// The value of an attribute.
#[repr(C)]
#[derive(Clone, Copy)]
pub union dashcam_value {
    /// DASHCAM_INTEGER
    pub integer: i64,
    /// DASHCAM_NUMBER
    pub number: f64,
    /// DASHCAM_TRUTH
    pub truth: c_int,
    /// DASHCAM_TEXT
    pub text: *const c_char,
}

/// An attribute; dashcam_integer and its siblings make one. At most 8 are recorded, the rest is
/// counted in the loss attributes_cut.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dashcam_attribute {
    /// From dashcam_name.
    pub key: dashcam_name_t,
    /// One of dashcam_kind.
    pub kind: c_int,
    /// The value.
    pub value: dashcam_value,
}

/// An open span, owned by the caller; nothing is allocated. Captures show it as open until it or
/// its thread ends; a span that is never ended is shown as open. All zero: none.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct dashcam_span {
    /// Its begin, from dashcam_now_ns.
    pub begin_ns: u64,
    /// The request it belongs to, 0 none.
    pub request: u64,
    /// Its name.
    pub name: dashcam_name_t,
    /// The epoch of its recorder.
    pub epoch: u32,
    /// Its place in the table of open spans.
    pub place: u32,
}

/// An open request, owned by the caller, to be ended once.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct dashcam_request {
    /// Unique in this process, 0 none. For dashcam_task_begin.
    pub id: u64,
    /// When it began.
    pub begin_ns: u64,
    /// The request that this thread worked for before.
    pub outer: u64,
    /// Its name.
    pub name: dashcam_name_t,
    /// The epoch of its recorder.
    pub epoch: u32,
}

/// Work for a request on another thread than its own.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct dashcam_task {
    /// The request.
    pub request: u64,
    /// When the work was handed over.
    pub queued_ns: u64,
    /// When it began.
    pub begin_ns: u64,
    /// The request that this thread worked for before.
    pub outer: u64,
    /// Its name.
    pub name: dashcam_name_t,
    /// The epoch of its recorder.
    pub epoch: u32,
}

/// The number of a text (UTF-8; at most 1000 bytes count), for names and keys: equal texts have the
/// same number for the life of the process, also before dashcam_start, after dashcam_stop and in
/// forked children. Call it once for each text and keep the number: it locks and allocates when the
/// text is new, and a process has 8192 of them. Not in a signal handler. Returns 0 on an error
/// (NULL, not UTF-8, too many); dashcam_last_error gives the reason.
#[no_mangle]
pub unsafe extern "C" fn dashcam_name(name: *const c_char) -> dashcam_name_t {
    let found = guarded(|| {
        awake();
        // SAFETY: the caller promises NULL, or a text ended by NUL.
        let name = unsafe { text(name, "name is NULL")? };
        match dashcam::handle(name) {
            0 => Err(Failed::new(DASHCAM_E_HANDLE, "more than 8192 names")),
            handle => Ok(handle),
        }
    });
    found.unwrap_or(0)
}

/// Begins a span of this thread's request. All zero when nothing records, and dashcam_span_end then
/// returns DASHCAM_E_OFF or DASHCAM_E_FORKED. Cost: one clock read; no lock, allocation or syscall.
/// Async-signal-safe.
#[no_mangle]
pub extern "C" fn dashcam_span_begin(name: dashcam_name_t) -> dashcam_span {
    let begun = guarded(|| {
        let epoch = epoch()?;
        let request = dashcam::current_request();
        let begin_ns = dashcam::now_ns();
        let place = match dashcam::handle_id(name, epoch) {
            Some(id) => dashcam::begin_span(id, begin_ns, request),
            None => OpenPlace::NONE,
        };
        Ok(dashcam_span { begin_ns, request, name, epoch, place: place.number() })
    });
    begun.unwrap_or_default()
}

/// Ends a span and records it, on the calling thread, as failed when `failed` is not 0, with
/// `count` attributes (NULL and 0: none). Cost: one clock read and one append; no lock, allocation
/// or syscall after the thread's first record. Async-signal-safe. Returns DASHCAM_OK,
/// DASHCAM_E_OFF, DASHCAM_E_FORKED, DASHCAM_E_NULL, DASHCAM_E_TEXT, DASHCAM_E_HANDLE (begun before
/// a fork, or by another recorder); then nothing is recorded.
#[no_mangle]
pub unsafe extern "C" fn dashcam_span_end(
    span: dashcam_span,
    failed: c_int,
    attributes: *const dashcam_attribute,
    count: usize,
) -> c_int {
    code(|| {
        let done = same(span.epoch).and_then(|epoch| {
            let name = known(span.name, epoch)?;
            // SAFETY: the caller promises NULL, or `count` attributes whose texts end with NUL.
            unsafe {
                listed(attributes, count, epoch, |list| {
                    dashcam::span(name, span.begin_ns, span.request, failed != 0, list);
                })
            }
        });
        dashcam::end_span(OpenPlace::from_number(span.place), span.begin_ns);
        done
    })
}

/// Records an event of this thread's request. Cost and errors as dashcam_span_end.
/// Async-signal-safe.
#[no_mangle]
pub unsafe extern "C" fn dashcam_event(
    name: dashcam_name_t,
    attributes: *const dashcam_attribute,
    count: usize,
) -> c_int {
    code(|| {
        let epoch = epoch()?;
        let name = known(name, epoch)?;
        let request = dashcam::current_request();
        // SAFETY: the caller promises NULL, or `count` attributes whose texts end with NUL.
        unsafe { listed(attributes, count, epoch, |list| dashcam::event(name, request, list)) }
    })
}

/// Begins a request, whose latency is judged (setting `slow`). Spans and events of this thread
/// belong to it until dashcam_request_end; requests nest. All zero when nothing records or the name
/// is invalid. Cost: a clock read, a slot in a table of 4095, one append; the first request of a
/// name also locks and allocates. Not in a signal handler.
#[no_mangle]
pub extern "C" fn dashcam_request_begin(name: dashcam_name_t) -> dashcam_request {
    let begun = guarded(|| {
        awake();
        let epoch = epoch()?;
        let id = dashcam::handle_request_id(name, epoch).ok_or_else(unknown_name)?;
        let Request { id, begin_ns } = Request::begin(id, false, 0);
        let outer = dashcam::swap_current_request(id);
        Ok(dashcam_request { id, begin_ns, outer, name, epoch })
    });
    begun.unwrap_or_default()
}

/// Ends a request, on any thread, as failed when `failed` is not 0, with `count` attributes. Cost
/// and errors as dashcam_span_end; DASHCAM_E_HANDLE also for a request that was ended before.
#[no_mangle]
pub unsafe extern "C" fn dashcam_request_end(
    request: dashcam_request,
    failed: c_int,
    attributes: *const dashcam_attribute,
    count: usize,
) -> c_int {
    code(|| {
        // Also while nothing records any more: an open request must not remain open for ever.
        if request.epoch == 0 || request.epoch != dashcam::epoch() {
            same(request.epoch)?;
        }
        let epoch = request.epoch;
        let name = dashcam::handle_request_id(request.name, epoch).ok_or_else(unknown_name)?;
        if dashcam::current_request() == request.id {
            dashcam::swap_current_request(request.outer);
        }
        if ended(request.id) {
            return Err(Failed::new(DASHCAM_E_HANDLE, "the request was ended before"));
        }
        let open = Request { id: request.id, begin_ns: request.begin_ns };
        // SAFETY: the caller promises NULL, or `count` attributes whose texts end with NUL.
        let done =
            unsafe { listed(attributes, count, epoch, |list| open.end(name, failed != 0, list)) };
        if done.is_err() {
            // Invalid attributes are left out; a request that began must end.
            open.end(name, failed != 0, &[]);
        }
        same(epoch).and(done)
    })
}

/// Makes an open request part of its caller's trace, given by the header `traceparent` of W3C Trace
/// Context; `tracestate` may be NULL. Writes one record; allocates and locks for a `tracestate`
/// only. Not in a signal handler. Returns DASHCAM_OK, DASHCAM_E_NULL, DASHCAM_E_TEXT, and
/// DASHCAM_E_HANDLE when there is no such request or the header is not valid: then the request
/// begins a trace of its own.
#[no_mangle]
pub unsafe extern "C" fn dashcam_request_continue(
    request: dashcam_request,
    traceparent: *const c_char,
    tracestate: *const c_char,
) -> c_int {
    code(|| {
        same(request.epoch)?;
        // SAFETY: the caller promises NULL, or a text ended by NUL.
        let parent = unsafe { text(traceparent, "traceparent is NULL")? };
        let state = match tracestate.is_null() {
            true => "",
            // SAFETY: as above.
            false => unsafe { text(tracestate, "tracestate is NULL")? },
        };
        match dashcam::continue_trace(request.id, parent, state) {
            true => Ok(DASHCAM_OK),
            false => Err(Failed::new(DASHCAM_E_HANDLE, "no open request, or no valid traceparent")),
        }
    })
}

/// Writes the header `traceparent` for calls that this thread makes now into `buffer` of `size`
/// bytes; 56 are enough. Empty outside of requests and spans. Allocates. Not in a signal handler.
/// Returns DASHCAM_OK, DASHCAM_E_OFF, DASHCAM_E_FORKED, DASHCAM_E_NULL, DASHCAM_E_SMALL.
#[no_mangle]
pub unsafe extern "C" fn dashcam_traceparent(buffer: *mut c_char, size: usize) -> c_int {
    code(|| {
        epoch()?;
        if buffer.is_null() {
            return Err(Failed::null("buffer is NULL"));
        }
        // SAFETY: not NULL; the caller promises `size` bytes.
        unsafe { copy_out(&dashcam::traceparent().unwrap_or_default(), buffer, size)? };
        Ok(DASHCAM_OK)
    })
}

/// Works for a request on the calling thread until dashcam_task_end: its spans and events belong to
/// the request. `request` is dashcam_request.id; `queued_ns` is when the work was handed over (from
/// dashcam_now_ns; 0: just now), so that time in a queue is recorded. All zero when nothing
/// records. Cost: one clock read. Not in a signal handler.
#[no_mangle]
pub extern "C" fn dashcam_task_begin(
    name: dashcam_name_t,
    request: u64,
    queued_ns: u64,
) -> dashcam_task {
    let begun = guarded(|| {
        awake();
        let epoch = epoch()?;
        let begin_ns = dashcam::now_ns();
        let queued_ns = if queued_ns == 0 { begin_ns } else { queued_ns.min(begin_ns) };
        let outer = dashcam::swap_current_request(request);
        Ok(dashcam_task { request, queued_ns, begin_ns, outer, name, epoch })
    });
    begun.unwrap_or_default()
}

/// Ends and records a task, on the thread it began on. Cost and errors as dashcam_span_end.
#[no_mangle]
pub extern "C" fn dashcam_task_end(task: dashcam_task) -> c_int {
    code(|| {
        let epoch = same(task.epoch)?;
        if dashcam::current_request() == task.request {
            dashcam::swap_current_request(task.outer);
        }
        dashcam::task(known(task.name, epoch)?, task.queued_ns, task.begin_ns, task.request);
        Ok(DASHCAM_OK)
    })
}

/// The recorder's epoch, if it equals `epoch`.
fn same(epoch: u32) -> Done<u32> {
    let now = self::epoch()?;
    match epoch {
        _ if epoch == now => Ok(now),
        0 => Err(off_then()),
        _ => Err(Failed::new(DASHCAM_E_HANDLE, "begun before a fork: it is not this process's")),
    }
}

#[cold]
fn off_then() -> Failed {
    match dashcam::is_on() {
        true => Failed::new(DASHCAM_E_HANDLE, "nothing recorded when it began, or it never began"),
        false => off(),
    }
}

/// Whether a request has left the table of open requests. For a request that the table had no room
/// for this is not known.
fn ended(id: u64) -> bool {
    let Some(recorder) = dashcam::current() else { return true };
    id == 0 || recorder.open_requests().has_ended(id)
}

fn known(name: dashcam_name_t, epoch: u32) -> Done<u32> {
    dashcam::handle_id(name, epoch).ok_or_else(unknown_name)
}

#[cold]
fn unknown_name() -> Failed {
    Failed::new(DASHCAM_E_HANDLE, "a name that is not from dashcam_name")
}

/// Attributes passed on: one more than a record takes, so that the record counts the cut.
const MOST: usize = 9;

/// Calls `with` with the attributes. Those past `MOST` are counted as left out.
///
/// # Safety
/// `at` is NULL, or points to `count` attributes whose texts end with NUL.
unsafe fn listed(
    at: *const dashcam_attribute,
    count: usize,
    epoch: u32,
    with: impl FnOnce(&[Attribute<'_>]),
) -> Done<c_int> {
    // SAFETY: the caller's promise, stated above.
    let given = unsafe { slice(at, count, "attributes is NULL")? };
    let mut list: [Attribute<'_>; MOST] = [(0, Value::Bool(false)); MOST];
    let mut len = 0;
    for attribute in given {
        // SAFETY: the caller's promise, stated above.
        let Some(value) = (unsafe { value(attribute)? }) else { continue };
        match list.get_mut(len) {
            Some(place) => *place = (known(attribute.key, epoch)?, value),
            None => {
                dashcam::lost_attribute();
                continue;
            }
        }
        len += 1;
    }
    with(&list[..len]);
    Ok(DASHCAM_OK)
}

/// # Safety
/// A text of the attribute is NULL or ends with NUL.
unsafe fn value(attribute: &dashcam_attribute) -> Done<Option<Value<'_>>> {
    const INTEGER: c_int = dashcam_kind::DASHCAM_INTEGER as c_int;
    const NUMBER: c_int = dashcam_kind::DASHCAM_NUMBER as c_int;
    const TRUTH: c_int = dashcam_kind::DASHCAM_TRUTH as c_int;
    const TEXT: c_int = dashcam_kind::DASHCAM_TEXT as c_int;
    // SAFETY: `kind` says which member was written, and any bytes are a valid integer, number or
    // pointer; the caller promises that a text is NULL or ends with NUL.
    unsafe {
        Ok(Some(match attribute.kind {
            INTEGER => Value::Int(attribute.value.integer),
            NUMBER => Value::Float(attribute.value.number),
            TRUTH => Value::Bool(attribute.value.truth != 0),
            TEXT if attribute.value.text.is_null() => return Ok(None),
            TEXT => Value::Text(text(attribute.value.text, "a text is NULL")?),
            _ => return Err(Failed::new(DASHCAM_E_HANDLE, "an attribute of no known kind")),
        }))
    }
}
