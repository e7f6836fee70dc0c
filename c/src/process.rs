//! Start, stop, capture, status, and the calling thread's name and error.

use std::ffi::{c_char, c_int};

use crate::codes::{
    code, last, Done, Failed, DASHCAM_ALREADY, DASHCAM_E_FORKED, DASHCAM_E_OFF, DASHCAM_E_SETTING,
    DASHCAM_E_WRITE, DASHCAM_OK,
};
use crate::text::{copy_out, slice, text};

/// A setting: `{"slow", "500ms"}`. Names and values are those of the environment variables
/// `DASHCAM_<NAME>`, which take precedence:
/// enabled, service, labels, out, slow, memory, window, post, cooldown, keep, keep_bytes, rate_hz,
/// budget_percent, switches, stacks, metrics_series, threads, on_error, on_metric, openmetrics,
/// signal, per_day, repeat_after, decay, at_exit, hook, explain, source_lines, rollups, control,
/// otlp, otlp_share, calls, propagate, otel.
#[repr(C)]
pub struct dashcam_setting {
    /// Name.
    pub name: *const c_char,
    /// Value, a text.
    pub value: *const c_char,
}

/// Starts recording with `count` settings (NULL and 0: the environment and the defaults). Starts
/// three threads that block all signals, and removes the black box when the process exits normally.
///
/// A forked child does not record until it calls one of dashcam_start, dashcam_name,
/// dashcam_thread_name, dashcam_request_begin, dashcam_task_begin, dashcam_snap or dashcam_status,
/// and then with its parent's settings unless it gives its own here. Names remain valid in it.
///
/// Cost: milliseconds; locks and allocates. Not in a signal handler. Returns DASHCAM_OK,
/// DASHCAM_ALREADY, DASHCAM_E_OFF (turned off by DASHCAM_ENABLED), DASHCAM_E_NULL, DASHCAM_E_TEXT,
/// DASHCAM_E_SETTING.
#[no_mangle]
pub unsafe extern "C" fn dashcam_start(settings: *const dashcam_setting, count: usize) -> c_int {
    code(|| {
        if dashcam::is_forked() && count == 0 {
            dashcam::after_fork_child();
        }
        if dashcam::is_started() {
            return Ok(DASHCAM_ALREADY);
        }
        let mut config = dashcam::Config::new();
        // SAFETY: the caller promises `count` settings whose texts end with NUL.
        for setting in unsafe { slice(settings, count, "settings is NULL")? } {
            // SAFETY: as above.
            let name = unsafe { text(setting.name, "the name of a setting is NULL")? };
            // SAFETY: as above.
            let value = unsafe { text(setting.value, "the value of a setting is NULL")? };
            config = config.with(name, value);
        }
        match dashcam::start(config) {
            Ok(true) => Ok(DASHCAM_OK),
            Ok(false) if dashcam::is_started() => Ok(DASHCAM_ALREADY),
            Ok(false) => Err(Failed::new(DASHCAM_E_OFF, "turned off by DASHCAM_ENABLED")),
            Err(error) => Err(Failed::new(DASHCAM_E_SETTING, &error.to_string())),
        }
    })
}

/// Stops recording and waits for the library's threads, at most two seconds; writes a capture that
/// was due. The recording remains in the black box; a later dashcam_start continues it. Not in a
/// signal handler. Returns DASHCAM_OK, also when nothing records.
#[no_mangle]
pub extern "C" fn dashcam_stop() -> c_int {
    code(|| {
        dashcam::stop();
        Ok(DASHCAM_OK)
    })
}

/// Saves a capture now and waits for it (tens of milliseconds; at most 30 s). `reason` may be NULL.
/// The path is copied into `path` (NULL: not wanted) of `size` bytes. Locks, allocates, writes. Not
/// in a signal handler. Returns DASHCAM_OK, DASHCAM_E_OFF, DASHCAM_E_TEXT, DASHCAM_E_WRITE, and
/// DASHCAM_E_SMALL when the capture was written and its path was cut.
#[no_mangle]
pub unsafe extern "C" fn dashcam_snap(
    reason: *const c_char,
    path: *mut c_char,
    size: usize,
) -> c_int {
    code(|| {
        awake();
        let reason = match reason.is_null() {
            true => "dashcam_snap",
            // SAFETY: the caller promises a text ended by NUL.
            false => unsafe { text(reason, "reason is NULL")? },
        };
        if !dashcam::is_started() {
            return Err(off());
        }
        let saved = dashcam::snap(reason).map_err(|why| Failed::new(DASHCAM_E_WRITE, &why))?;
        // SAFETY: the caller promises that `path` is NULL or has `size` bytes.
        unsafe { copy_out(&saved.display().to_string(), path, size)? };
        Ok(DASHCAM_OK)
    })
}

/// The state as JSON (settings, sources, losses, own cost, captures), ended by NUL. `{"on":false}`
/// when nothing records. 4096 bytes are enough for a few captures. Locks and allocates. Not in a
/// signal handler. Returns DASHCAM_OK, DASHCAM_E_NULL, DASHCAM_E_SMALL.
#[no_mangle]
pub unsafe extern "C" fn dashcam_status(buffer: *mut c_char, size: usize) -> c_int {
    code(|| {
        awake();
        if buffer.is_null() {
            return Err(Failed::null("buffer is NULL"));
        }
        // SAFETY: not NULL; the caller promises `size` bytes.
        unsafe { copy_out(&dashcam::status_json(), buffer, size)? };
        Ok(DASHCAM_OK)
    })
}

/// Gives the calling thread its name in captures. Locks and allocates. Not in a signal handler.
/// Returns DASHCAM_OK, DASHCAM_E_OFF, DASHCAM_E_NULL, DASHCAM_E_TEXT.
#[no_mangle]
pub unsafe extern "C" fn dashcam_thread_name(name: *const c_char) -> c_int {
    code(|| {
        awake();
        // SAFETY: the caller promises NULL, or a text ended by NUL.
        let name = unsafe { text(name, "name is NULL")? };
        if !dashcam::is_on() {
            return Err(off());
        }
        dashcam::name_thread(name);
        Ok(DASHCAM_OK)
    })
}

/// The error text of the last call of this thread that failed, in English; "" when none did. Valid
/// until its next call that fails; never NULL. Async-signal-safe.
#[no_mangle]
pub extern "C" fn dashcam_last_error() -> *const c_char {
    last()
}

/// Nanoseconds of the recorder's clock, CLOCK_MONOTONIC. Async-signal-safe, 10-25 ns.
#[no_mangle]
pub extern "C" fn dashcam_now_ns() -> u64 {
    dashcam::now_ns()
}

/// In a forked child: starts a new recording.
pub(crate) fn awake() {
    if dashcam::is_forked() {
        dashcam::after_fork_child();
    }
}

/// The epoch of the active recorder; does not start one in a forked child.
pub(crate) fn epoch() -> Done<u32> {
    match dashcam::on_epoch() {
        0 => Err(off()),
        epoch => Ok(epoch),
    }
}

#[cold]
pub(crate) fn off() -> Failed {
    match dashcam::is_forked() {
        true => Failed::new(
            DASHCAM_E_FORKED,
            "this forked child does not record yet; call dashcam_start(NULL, 0) in it",
        ),
        false => Failed::new(DASHCAM_E_OFF, "nothing records; call dashcam_start first"),
    }
}
