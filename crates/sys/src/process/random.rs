//! A number that no other process has.

/// A random number from the kernel. Where that is refused (a seccomp filter, the first instants
/// after boot): one of the clocks and the process id, which differs from process to process but can
/// be guessed. Never 0. One system call.
pub fn number() -> u64 {
    let mut bytes = [0u8; 8];
    // By number: older C libraries (glibc 2.17) have no function for it.
    // SAFETY: the call writes at most the 8 bytes it is given.
    let got = unsafe {
        libc::syscall(libc::SYS_getrandom, bytes.as_mut_ptr(), bytes.len(), libc::GRND_NONBLOCK)
    };
    match (got, u64::from_ne_bytes(bytes)) {
        (8, number) if number != 0 => number,
        _ => without_the_kernel(),
    }
}

#[cold]
fn without_the_kernel() -> u64 {
    let clocks = crate::clock::epoch_ns().rotate_left(20) ^ crate::clock::now_ns();
    (clocks ^ u64::from(std::process::id()).rotate_left(44)) | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_numbers_differ_and_none_is_zero() {
        assert_ne!(number(), number());
        assert_ne!(without_the_kernel(), 0);
    }
}
