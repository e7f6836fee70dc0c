//! Time limits of blocked calls, in the four shapes the kernel takes them.
//!
//! How it works: most are a pointer to two 64-bit numbers (seconds, and nano- or microseconds),
//! read through the guarded reader; NULL means no limit. Deadlines are turned into what is left of
//! them now. What cannot be read or makes no sense is `Unknown`: there is a limit, of some length.

use crate::clock;
use crate::mem::Reader;

/// A time limit as far as it could be read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Timeout {
    None,
    Unknown,
    Ns(u64),
}

/// An int of milliseconds, negative for no limit.
pub(super) fn milliseconds(arg: u64) -> Timeout {
    match u64::try_from(arg as i32) {
        Ok(ms) => Timeout::Ns(ms * 1_000_000),
        Err(_) => Timeout::None,
    }
}

/// A struct timeval: seconds and microseconds. NULL means no limit.
pub(super) fn microseconds(address: u64, mem: &Reader) -> Timeout {
    pair(address, mem, 1_000)
}

/// A struct timespec that holds a length. NULL means no limit.
pub(super) fn length(address: u64, mem: &Reader) -> Timeout {
    pair(address, mem, 1)
}

/// A struct timespec that holds a deadline on `clock`. NULL means no limit.
pub(super) fn until(address: u64, clock: libc::clockid_t, mem: &Reader) -> Timeout {
    let now = match clock {
        libc::CLOCK_MONOTONIC => clock::now_ns(),
        libc::CLOCK_REALTIME => clock::epoch_ns(),
        _ if address == 0 => return Timeout::None,
        _ => return Timeout::Unknown,
    };
    match length(address, mem) {
        Timeout::Ns(deadline) => Timeout::Ns(deadline.saturating_sub(now)),
        other => other,
    }
}

fn pair(address: u64, mem: &Reader, fraction_ns: u64) -> Timeout {
    if address == 0 {
        return Timeout::None;
    }
    let mut bytes = [0u8; 16];
    if mem.read(address as usize, &mut bytes).is_err() {
        return Timeout::Unknown;
    }
    let (seconds, fraction) = bytes.split_at(8);
    let number = |b: &[u8]| b.try_into().ok().map(i64::from_ne_bytes);
    let whole = number(seconds).and_then(|s| u64::try_from(s).ok());
    let part = number(fraction).and_then(|f| u64::try_from(f).ok());
    match (whole, part) {
        (Some(s), Some(f)) if f <= 1_000_000_000 => {
            Timeout::Ns(s.saturating_mul(1_000_000_000).saturating_add(f * fraction_ns))
        }
        _ => Timeout::Unknown,
    }
}
