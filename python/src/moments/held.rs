//! The attributes of a span or request, while something is made of them.
//!
//! How it works: with the GIL they are read from the object, which no other thread changes
//! meanwhile. On a free-threaded build another thread may replace a value (`set`) at any moment, so
//! all are copied at once, each with a reference of its own.
//!
//! What it promises: keys and values are alive as long as this is. Missing on purpose: names, which
//! never change.

use pyo3::ffi;

use super::object::Moment;

#[cfg(not(Py_GIL_DISABLED))]
pub(super) struct Held<'m>(&'m Moment);

#[cfg(not(Py_GIL_DISABLED))]
impl<'m> Held<'m> {
    /// Those of `moment`.
    ///
    /// Safety: the GIL is held, and so is the object.
    #[inline]
    pub unsafe fn of(moment: &'m Moment) -> Held<'m> {
        Held(moment)
    }

    #[inline]
    pub fn count(&self) -> usize {
        self.0.count.get() as usize
    }

    /// The number that had no room.
    #[inline]
    pub fn extra(&self) -> u32 {
        self.0.extra.get()
    }

    /// Key and value; `at` is below `count`.
    #[inline]
    pub fn pair(&self, at: usize) -> (*mut ffi::PyObject, *mut ffi::PyObject) {
        (self.0.keys[at].get(), self.0.values[at].get())
    }
}

#[cfg(Py_GIL_DISABLED)]
pub(super) struct Held<'m> {
    count: usize,
    extra: u32,
    /// Owned below `count`.
    pairs: [(*mut ffi::PyObject, *mut ffi::PyObject); format::record::MAX_ATTRIBUTES],
    of: std::marker::PhantomData<&'m Moment>,
}

#[cfg(Py_GIL_DISABLED)]
impl<'m> Held<'m> {
    pub unsafe fn of(moment: &'m Moment) -> Held<'m> {
        let nothing = (std::ptr::null_mut(), std::ptr::null_mut());
        let mut pairs = [nothing; format::record::MAX_ATTRIBUTES];
        // SAFETY: the caller is attached and holds the object; keys and values below the count are
        // alive while nothing changes them.
        unsafe {
            crate::alone::alone(moment.as_object(), || {
                let count = moment.count.get() as usize;
                for (at, pair) in pairs.iter_mut().enumerate().take(count) {
                    *pair = (moment.keys[at].get(), moment.values[at].get());
                    ffi::Py_INCREF(pair.0);
                    ffi::Py_INCREF(pair.1);
                }
                let extra = moment.extra.get();
                Held { count, extra, pairs, of: std::marker::PhantomData }
            })
        }
    }

    pub fn count(&self) -> usize {
        self.count
    }

    pub fn extra(&self) -> u32 {
        self.extra
    }

    pub fn pair(&self, at: usize) -> (*mut ffi::PyObject, *mut ffi::PyObject) {
        self.pairs[at]
    }
}

#[cfg(Py_GIL_DISABLED)]
impl Drop for Held<'_> {
    fn drop(&mut self) {
        for (key, value) in &self.pairs[..self.count] {
            // SAFETY: references of its own; the code that keeps one is attached.
            unsafe {
                ffi::Py_DECREF(*key);
                ffi::Py_DECREF(*value);
            }
        }
    }
}
