//! Texts and buffers from C.

use std::ffi::{c_char, CStr};

use crate::codes::{Done, Failed, DASHCAM_E_SMALL, DASHCAM_E_TEXT};

/// The text at `at`.
///
/// # Safety
/// `at` is NULL, or a text ended by NUL that does not change during `'a`.
pub(crate) unsafe fn text<'a>(at: *const c_char, what: &'static str) -> Done<&'a str> {
    if at.is_null() {
        return Err(Failed::null(what));
    }
    // SAFETY: not NULL; the caller promises the rest.
    let text = unsafe { CStr::from_ptr(at) };
    text.to_str().map_err(|_| Failed::new(DASHCAM_E_TEXT, "a text is not UTF-8"))
}

/// The `count` objects at `at`; NULL only when there are none.
///
/// # Safety
/// `at` is NULL, or points to `count` objects that do not change during `'a`.
pub(crate) unsafe fn slice<'a, T>(at: *const T, count: usize, what: &'static str) -> Done<&'a [T]> {
    match (at.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Failed::null(what)),
        // SAFETY: not NULL; the caller promises the rest.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(at, count) }),
    }
}

/// Copies `text` into the buffer and ends it with NUL. NULL, or no bytes: nothing is copied.
///
/// # Safety
/// `to` is NULL, or has room for `size` bytes.
pub(crate) unsafe fn copy_out(text: &str, to: *mut c_char, size: usize) -> Done<()> {
    if to.is_null() || size == 0 {
        return Ok(());
    }
    let mut end = text.len().min(size - 1);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    // SAFETY: `end` is below `size`, so the text and its NUL fit; the two do not overlap, since
    // Rust owns the text.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), to.cast::<u8>(), end);
        to.add(end).write(0);
    }
    match end == text.len() {
        true => Ok(()),
        false => Err(Failed::new(
            DASHCAM_E_SMALL,
            &format!("the buffer has {size} bytes, wanted {}", text.len() + 1),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::DASHCAM_E_NULL;

    #[test]
    fn a_small_buffer_gets_the_beginning_and_a_code() {
        let mut room = [0x55; 8];
        // SAFETY: the sizes given are those of the array or less.
        unsafe {
            assert!(copy_out("1234567", room.as_mut_ptr(), 8).is_ok());
            let cut = copy_out("12\u{20ac}", room.as_mut_ptr(), 5);
            assert_eq!(cut.map_err(|f| f.code()), Err(DASHCAM_E_SMALL));
            assert_eq!(CStr::from_ptr(room.as_ptr()).to_str(), Ok("12"));
            assert!(copy_out("text", std::ptr::null_mut(), 8).is_ok());
            let none = slice::<u8>(std::ptr::null(), 1, "x");
            assert_eq!(none.map_err(|f| f.code()), Err(DASHCAM_E_NULL));
            assert_eq!(text(c"\xff".as_ptr(), "x").map_err(|f| f.code()), Err(DASHCAM_E_TEXT));
        }
    }
}
