//! The return codes of functions, and the error text of each thread.

use std::cell::Cell;
use std::ffi::{c_char, c_int};
use std::panic::{catch_unwind, AssertUnwindSafe};

/// Return codes of functions. Errors are negative.
#[repr(C)]
#[allow(clippy::upper_case_acronyms)]
pub enum dashcam_code {
    /// Done.
    DASHCAM_OK = 0,
    /// Done before: `dashcam_start` while recording is on.
    DASHCAM_ALREADY = 1,
    /// Nothing records: before `dashcam_start`, after `dashcam_stop`, or with `DASHCAM_ENABLED=0`.
    /// No reason to stop a service: the call did nothing.
    DASHCAM_E_OFF = -1,
    /// A forked child that does not record yet; see `dashcam_start`.
    DASHCAM_E_FORKED = -2,
    /// A pointer that must not be NULL was NULL.
    DASHCAM_E_NULL = -3,
    /// A text is not UTF-8.
    DASHCAM_E_TEXT = -4,
    /// A setting is unknown or its value wrong, or there is no memory for the black box.
    DASHCAM_E_SETTING = -5,
    /// The capture could not be written.
    DASHCAM_E_WRITE = -6,
    /// The buffer is too small; its beginning was filled, and ends with NUL.
    DASHCAM_E_SMALL = -7,
    /// A name that is not from `dashcam_name`, an attribute of no known kind, or a span, request or
    /// task that is not open in this process.
    DASHCAM_E_HANDLE = -8,
    /// An internal error was caught; please report it.
    DASHCAM_E_INTERNAL = -9,
}

pub(crate) const DASHCAM_OK: c_int = dashcam_code::DASHCAM_OK as c_int;
pub(crate) const DASHCAM_ALREADY: c_int = dashcam_code::DASHCAM_ALREADY as c_int;
pub(crate) const DASHCAM_E_OFF: c_int = dashcam_code::DASHCAM_E_OFF as c_int;
pub(crate) const DASHCAM_E_FORKED: c_int = dashcam_code::DASHCAM_E_FORKED as c_int;
pub(crate) const DASHCAM_E_NULL: c_int = dashcam_code::DASHCAM_E_NULL as c_int;
pub(crate) const DASHCAM_E_TEXT: c_int = dashcam_code::DASHCAM_E_TEXT as c_int;
pub(crate) const DASHCAM_E_SETTING: c_int = dashcam_code::DASHCAM_E_SETTING as c_int;
pub(crate) const DASHCAM_E_WRITE: c_int = dashcam_code::DASHCAM_E_WRITE as c_int;
pub(crate) const DASHCAM_E_SMALL: c_int = dashcam_code::DASHCAM_E_SMALL as c_int;
pub(crate) const DASHCAM_E_HANDLE: c_int = dashcam_code::DASHCAM_E_HANDLE as c_int;
pub(crate) const DASHCAM_E_INTERNAL: c_int = dashcam_code::DASHCAM_E_INTERNAL as c_int;

const LAST: usize = 256;

thread_local! {
    /// The last error of this thread, ended by NUL. No destructor and no allocation, so that it may
    /// be written in a signal handler and while a thread ends.
    static TEXT: [Cell<u8>; LAST] = const { [const { Cell::new(0) }; LAST] };
}

/// The reason for a failed call.
pub(crate) struct Failed(c_int);

pub(crate) type Done<T> = Result<T, Failed>;

impl Failed {
    /// An error with this text.
    pub(crate) fn new(code: c_int, text: &str) -> Failed {
        report(text);
        Failed(code)
    }

    /// The error that `what` was NULL.
    pub(crate) fn null(what: &'static str) -> Failed {
        report(what);
        Failed(DASHCAM_E_NULL)
    }

    pub(crate) fn code(&self) -> c_int {
        self.0
    }
}

fn report(text: &str) {
    let _ = TEXT.try_with(|cells| {
        let mut end = text.len().min(LAST - 1);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let bytes = text.as_bytes()[..end].iter().copied().chain(std::iter::repeat(0));
        cells.iter().zip(bytes).for_each(|(cell, byte)| cell.set(byte));
    });
}

/// The text of the thread's last error.
pub(crate) fn last() -> *const c_char {
    TEXT.try_with(|cells| cells.as_ptr().cast()).unwrap_or(c"".as_ptr())
}

/// Runs the body of a function that C calls; catches its panics.
pub(crate) fn guarded<T>(body: impl FnOnce() -> Done<T>) -> Done<T> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(done) => done,
        Err(panic) => {
            // A payload may panic when dropped; it is leaked, since a panic here would abort.
            std::mem::forget(panic);
            Err(Failed::new(DASHCAM_E_INTERNAL, "internal error; please report it"))
        }
    }
}

/// `guarded`, with the result as a code.
pub(crate) fn code(body: impl FnOnce() -> Done<c_int>) -> c_int {
    guarded(body).unwrap_or_else(|failed| failed.code())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_code_and_a_text() {
        struct Nasty;
        impl Drop for Nasty {
            fn drop(&mut self) {
                panic!("again");
            }
        }
        assert_eq!(code(|| panic!("on purpose")), DASHCAM_E_INTERNAL);
        assert_eq!(code(|| std::panic::panic_any(Nasty)), DASHCAM_E_INTERNAL);
        // SAFETY: `last` points to the thread's own text, which ends with NUL.
        let text = unsafe { std::ffi::CStr::from_ptr(last()) };
        assert_eq!(text.to_str(), Ok("internal error; please report it"));
        assert_eq!(code(|| Ok(DASHCAM_OK)), DASHCAM_OK);
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let _ = Failed::new(DASHCAM_E_TEXT, &"\u{20ac}".repeat(200));
        // SAFETY: as above.
        let text = unsafe { std::ffi::CStr::from_ptr(last()) };
        assert_eq!(text.to_str(), Ok("\u{20ac}".repeat(85).as_str()));
    }
}
