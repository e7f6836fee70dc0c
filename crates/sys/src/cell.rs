//! A place for one long-lived object that is set rarely and read by everybody.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Holds a `&'static T` or nothing. Reading is one acquire load: no lock that a fork could leave
/// held in the child.
pub struct StaticRef<T: 'static> {
    at: AtomicPtr<T>,
    holds: PhantomData<&'static T>,
}

impl<T: Sync + 'static> StaticRef<T> {
    /// Holds nothing.
    pub const fn empty() -> StaticRef<T> {
        StaticRef { at: AtomicPtr::new(std::ptr::null_mut()), holds: PhantomData }
    }

    /// What it holds.
    #[inline]
    pub fn get(&self) -> Option<&'static T> {
        // Acquire: pairs with the release in `set`, so the object is seen as it was published.
        let at = self.at.load(Ordering::Acquire);
        // SAFETY: `at` is null or came from a `&'static T` in `set`; statics are never freed.
        unsafe { at.as_ref() }
    }

    /// Replaces it.
    pub fn set(&self, value: Option<&'static T>) {
        let at = value.map_or(std::ptr::null_mut(), |v| std::ptr::from_ref(v).cast_mut());
        self.at.store(at, Ordering::Release);
    }
}
