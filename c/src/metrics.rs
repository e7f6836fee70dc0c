//! Metrics: a series as a number, and the calls that count.

use std::ffi::{c_char, c_int};

use dashcam::Numbered;

use crate::codes::{code, guarded, Done, Failed, DASHCAM_E_HANDLE, DASHCAM_E_WRITE, DASHCAM_OK};
use crate::process::{awake, epoch, off};
use crate::text::{slice, text};

/// A series of a metric as a number; from dashcam_metric. 0 is none.
pub type dashcam_metric_t = u32;

/// The kind of a metric.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum dashcam_metric_kind {
    /// A sum of increments: dashcam_count
    DASHCAM_COUNTER = 0,
    /// A value that is set and changed: dashcam_gauge_set, dashcam_gauge_add
    DASHCAM_GAUGE = 1,
    /// Durations in milliseconds: dashcam_record
    DASHCAM_TIMING = 2,
    /// Values: dashcam_record
    DASHCAM_HISTOGRAM = 3,
    /// Values whose distribution a server computes over all hosts: dashcam_record
    DASHCAM_DISTRIBUTION = 4,
    /// Distinct members: dashcam_member
    DASHCAM_SET = 5,
}

const COUNTER: c_int = dashcam_metric_kind::DASHCAM_COUNTER as c_int;
const GAUGE: c_int = dashcam_metric_kind::DASHCAM_GAUGE as c_int;
const TIMING: c_int = dashcam_metric_kind::DASHCAM_TIMING as c_int;
const HISTOGRAM: c_int = dashcam_metric_kind::DASHCAM_HISTOGRAM as c_int;
const DISTRIBUTION: c_int = dashcam_metric_kind::DASHCAM_DISTRIBUTION as c_int;
const SET: c_int = dashcam_metric_kind::DASHCAM_SET as c_int;

/// A tag of a metric: texts in UTF-8, of at most 255 bytes each.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dashcam_tag {
    /// Its key.
    pub key: *const c_char,
    /// Its value; "" for a tag that has none.
    pub value: *const c_char,
}

/// The series of this kind and name with these `count` tags (NULL and 0: none; at most 32), and
/// `rate`, the share of the calls that are let through, above 0 and at most 1: sums are scaled up
/// by it. dashcam_counter and its siblings make one without tags. Equal ones have the same number
/// for the life of the process, also before dashcam_start, after dashcam_stop and in forked
/// children. Call it once and keep the number: it locks and allocates when the series is new, and a
/// process has as many as the setting metrics_series says. Not in a signal handler. Returns 0 on an
/// error (NULL, not UTF-8, no known kind, too long, too many); dashcam_last_error gives the reason.
#[no_mangle]
pub unsafe extern "C" fn dashcam_metric(
    kind: c_int,
    name: *const c_char,
    tags: *const dashcam_tag,
    count: usize,
    rate: f64,
) -> dashcam_metric_t {
    let found = guarded(|| {
        awake();
        // SAFETY: the caller promises NULL, or a text ended by NUL.
        let name = unsafe { text(name, "name is NULL")? };
        let mut metric = dashcam::metric(name).rate(rate);
        // SAFETY: the caller promises NULL, or `count` tags.
        for tag in unsafe { slice(tags, count, "tags is NULL")? } {
            // SAFETY: the caller promises that the texts of a tag end with NUL.
            let (key, value) = unsafe {
                (text(tag.key, "a tag's key is NULL")?, text(tag.value, "a tag's value is NULL")?)
            };
            metric = metric.tag(key, value);
        }
        let number = match kind {
            COUNTER => metric.counter().number(),
            GAUGE => metric.gauge().number(),
            TIMING => metric.timing().number(),
            HISTOGRAM => metric.histogram().number(),
            DISTRIBUTION => metric.distribution().number(),
            SET => metric.set().number(),
            _ => return Err(Failed::new(DASHCAM_E_HANDLE, "no known kind of metric")),
        };
        match number {
            0 => Err(Failed::new(
                DASHCAM_E_HANDLE,
                "the metric is refused: a name or tag is empty or too long, the rate is not above \
                 0 and at most 1, or there are as many series as metrics_series allows",
            )),
            number => Ok(number),
        }
    });
    found.unwrap_or(0)
}

/// Adds `n`, which may be negative, to a counter. A call never waits and is kept also before
/// dashcam_start. Cost: some ns; no lock or syscall, and no allocation after the thread's first use
/// of the series, so that a signal handler may count what its thread has counted before. Returns
/// DASHCAM_OK, DASHCAM_E_FORKED (a forked child that does not record yet), DASHCAM_E_HANDLE (not
/// from dashcam_metric, or of another kind).
#[no_mangle]
pub extern "C" fn dashcam_count(counter: dashcam_metric_t, n: i64) -> c_int {
    code(|| match numbered(counter)? {
        Numbered::Counter(counter) => done(|| counter.add(n)),
        _ => Err(another("dashcam_count: the metric is no counter")),
    })
}

/// Sets a gauge. The last set of all threads holds. Cost and errors as dashcam_count.
#[no_mangle]
pub extern "C" fn dashcam_gauge_set(gauge: dashcam_metric_t, value: f64) -> c_int {
    code(|| match numbered(gauge)? {
        Numbered::Gauge(gauge) => done(|| gauge.set(value)),
        _ => Err(another("dashcam_gauge_set: the metric is no gauge")),
    })
}

/// Changes a gauge. Cost and errors as dashcam_count.
#[no_mangle]
pub extern "C" fn dashcam_gauge_add(gauge: dashcam_metric_t, delta: f64) -> c_int {
    code(|| match numbered(gauge)? {
        Numbered::Gauge(gauge) => done(|| gauge.add(delta)),
        _ => Err(another("dashcam_gauge_add: the metric is no gauge")),
    })
}

/// Notes a value of a timing (in milliseconds), a histogram or a distribution. Cost and errors as
/// dashcam_count; a value that is no finite number is counted as refused.
#[no_mangle]
pub extern "C" fn dashcam_record(metric: dashcam_metric_t, value: f64) -> c_int {
    code(|| match numbered(metric)? {
        Numbered::Values(values) => done(|| values.record(value)),
        _ => Err(another("dashcam_record: the metric is no timing, histogram or distribution")),
    })
}

/// Notes a member of a set (UTF-8); the same one again in a second changes nothing. Cost and errors
/// as dashcam_count, and DASHCAM_E_NULL, DASHCAM_E_TEXT.
#[no_mangle]
pub unsafe extern "C" fn dashcam_member(set: dashcam_metric_t, member: *const c_char) -> c_int {
    code(|| match numbered(set)? {
        Numbered::Set(set) => {
            // SAFETY: the caller promises NULL, or a text ended by NUL.
            let member = unsafe { text(member, "member is NULL")? };
            done(|| set.add(member))
        }
        _ => Err(another("dashcam_member: the metric is no set")),
    })
}

/// Sends what was counted until now: takes a window, which is otherwise taken once a second, and
/// waits until it is in the black box and sent where the settings say, at most two seconds. Not in
/// a signal handler. Returns DASHCAM_OK, DASHCAM_E_OFF, DASHCAM_E_FORKED, DASHCAM_E_WRITE (not sent
/// in that time).
#[no_mangle]
pub extern "C" fn dashcam_flush() -> c_int {
    code(|| {
        epoch()?;
        match dashcam::flush() {
            true => Ok(DASHCAM_OK),
            false => Err(Failed::new(DASHCAM_E_WRITE, "the counts are not sent within 2 s")),
        }
    })
}

/// The series of a number. A forked child is not started here, which allocates.
fn numbered(number: dashcam_metric_t) -> Done<Numbered> {
    if dashcam::is_forked() {
        return Err(off());
    }
    dashcam::numbered(number)
        .ok_or_else(|| Failed::new(DASHCAM_E_HANDLE, "a metric that is not from dashcam_metric"))
}

fn done(call: impl FnOnce()) -> Done<c_int> {
    call();
    Ok(DASHCAM_OK)
}

#[cold]
fn another(text: &str) -> Failed {
    Failed::new(DASHCAM_E_HANDLE, text)
}
