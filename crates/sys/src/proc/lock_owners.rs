//! The thread that holds a lock of the C library, by the lock's own fields.
//!
//! | lock | waiters sleep at | holder's id | works for |
//! | --- | --- | --- | --- |
//! | `pthread_mutex_t` (also `std::mutex`) | its first word | its third | all kinds |
//! | `pthread_rwlock_t` held for writing | its third or fourth word | its seventh | glibc 2.25 on |
//! | a futex that is waited for by FUTEX_LOCK_PI | it | its low 30 bits | any |
//!
//! Readers of a `pthread_rwlock_t` sleep at its third word, writers at its fourth.
//!
//! Words of 4 bytes. Source: `struct __pthread_mutex_s`, `struct __pthread_rwlock_arch_t` of glibc
//! on 64 bits, futex(2).
//!
//! What it promises: only memory around `futex` is read, guarded; None where the fields around it
//! are not those of such a lock. Memory that looks like one by chance would name a number that is
//! hardly a thread's: the caller checks for threads of this process. What is missing on purpose:
//! Rust's own locks and readers of a `pthread_rwlock_t`, which name no owner.

use crate::calls;
use crate::mem::Reader;
use crate::task::TaskCall;

/// The thread that holds the lock whose waiters sleep at `futex`, where `call` waits for it.
pub fn owner(mem: &Reader, call: &TaskCall, futex: u64) -> Option<u32> {
    let words = Words::read(mem, futex);
    match calls::is_priority_inheriting(call) {
        true => Some(words.0[HERE] & libc::FUTEX_TID_MASK).filter(|owner| *owner != 0),
        false => words.mutex().or_else(|| words.writer()),
    }
}

/// From two words in front of the futex on; what can't be read is 0.
struct Words([u32; 9]);

/// Index of the futex's own word.
const HERE: usize = 2;

impl Words {
    fn read(mem: &Reader, futex: u64) -> Words {
        let mut bytes = [0u8; 36];
        let start = (futex as usize).wrapping_sub(4 * HERE);
        if mem.read(start, &mut bytes).is_err() {
            // A lock may be at the very begin or end of the mapped memory.
            let own = &mut bytes[4 * HERE..4 * HERE + 20];
            if mem.read(futex as usize, own).is_err() {
                own.fill(0);
            }
        }
        let mut words = [0u32; 9];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = bytes.try_into().map(u32::from_le_bytes).unwrap_or_default();
        }
        Words(words)
    }

    /// Normal, recursive, error-checking and adaptive mutexes.
    fn mutex(&self) -> Option<u32> {
        /// Locked, and a thread waits.
        const CONTENDED: u32 = 2;
        /// Above are bits of their own.
        const KINDS: u32 = 4;
        const KIND_BITS: u32 = 0x7f;
        let known = cfg!(all(target_env = "gnu", target_pointer_width = "64"));
        let [_, _, lock, _, owner, users, kind, ..] = self.0;
        let is_one = lock == CONTENDED && owner != 0 && users != 0 && kind & KIND_BITS < KINDS;
        (known && is_one).then_some(owner)
    }

    /// The writer of a lock that readers or writers wait for.
    fn writer(&self) -> Option<u32> {
        /// Of the first word: it is in the phase of writing, and locked for it.
        const WRITING: u32 = 1 | 2;
        /// Of the third: the same phase, and a thread waits for its end.
        const PHASE: u32 = 1 | 2;
        let known = cfg!(all(target_env = "gnu", target_pointer_width = "64"));
        let w = self.0;
        // Where readers sleep: | readers | writers | HERE | writers' futex | pad | pad | writer |
        let for_readers = w[0] & WRITING == WRITING && w[HERE] == PHASE && w[HERE + 4] != 0;
        // Where writers sleep: | writers | phase | HERE | pad | pad | writer |
        let for_writers = w[1] & 1 == 1 && w[HERE] == PHASE && w[HERE + 3] != 0;
        match (known, for_readers, for_writers) {
            (true, true, false) => Some(w[HERE + 4]),
            (true, false, true) => Some(w[HERE + 3]),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::UnsafeCell;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    struct Lock<T>(UnsafeCell<T>);
    // SAFETY: passed to pthread functions only, which synchronise themselves.
    unsafe impl<T> Sync for Lock<T> {}

    static MUTEX: Lock<libc::pthread_mutex_t> =
        Lock(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
    static RWLOCK: Lock<libc::pthread_rwlock_t> =
        Lock(UnsafeCell::new(libc::PTHREAD_RWLOCK_INITIALIZER));

    /// The holder that is reported for a thread that runs `take`; None also if that does not wait.
    fn owner_of(take: fn()) -> Option<u32> {
        let (mem, tid) = (Reader::new().expect("a reader"), &AtomicU32::new(0));
        std::thread::scope(|scope| {
            scope.spawn(move || {
                tid.store(crate::thread::cached_tid(), Ordering::Release);
                take();
            });
            for _ in 0..2000 {
                std::thread::sleep(Duration::from_millis(5));
                let tid = tid.load(Ordering::Acquire);
                let reader = (tid != 0).then(|| crate::task::TaskReader::open(tid));
                let Some(Ok(call)) = reader.map(|reader| reader.map(|mut r| r.call())) else {
                    continue;
                };
                let Ok(call @ TaskCall::Syscall { nr: libc::SYS_futex, args, .. }) = call else {
                    continue;
                };
                let owner = owner(&mem, &call, args[0]);
                release();
                return owner;
            }
            release();
            panic!("it never waited");
        })
    }

    /// Releases whichever of the two this thread holds.
    fn release() {
        // SAFETY: as `Lock`; this thread has locked the one that `HELD` names.
        unsafe {
            match HELD.load(Ordering::Relaxed) {
                0 => libc::pthread_mutex_unlock(MUTEX.0.get()),
                _ => libc::pthread_rwlock_unlock(RWLOCK.0.get()),
            };
        }
    }

    static HELD: AtomicU32 = AtomicU32::new(0);

    #[test]
    fn holders_of_c_library_locks_are_read_from_their_fields() {
        let own = Some(crate::thread::cached_tid());
        // SAFETY: as `Lock`.
        unsafe {
            libc::pthread_mutex_lock(MUTEX.0.get());
            let mutex = || {
                libc::pthread_mutex_lock(MUTEX.0.get());
                libc::pthread_mutex_unlock(MUTEX.0.get());
            };
            assert_eq!(owner_of(mutex), own, "a mutex");
            HELD.store(1, Ordering::Relaxed);
            let read = || {
                libc::pthread_rwlock_rdlock(RWLOCK.0.get());
                libc::pthread_rwlock_unlock(RWLOCK.0.get());
            };
            let write = || {
                libc::pthread_rwlock_wrlock(RWLOCK.0.get());
                libc::pthread_rwlock_unlock(RWLOCK.0.get());
            };
            for take in [read, write] {
                libc::pthread_rwlock_wrlock(RWLOCK.0.get());
                assert_eq!(owner_of(take), own, "held for writing");
            }
            libc::pthread_rwlock_rdlock(RWLOCK.0.get());
            assert_eq!(owner_of(write), None, "a reader leaves no name");
        }
    }
}
