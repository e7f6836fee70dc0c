//! The distance from the stack pointer to the return address, for a function with a frame pointer.
//!
//! How it works: the first instructions of the function are decoded: what they push, and the room
//! they make. The unwind tables of such a function count from the frame pointer alone, and the
//! frame pointer of a blocked thread is not known. Rust's standard library is built like that, and
//! threads block in its locks.
//!
//! What it promises: a distance only for prologues of known form; the caller must still check that
//! the word there is an address of code. Missing on purpose: functions that align the stack or make
//! room again later.

/// Bytes of a function that are decoded.
pub const MOST_BYTES: usize = 48;

/// Words from the stack pointer, after the prologue, to the return address. None: the prologue has
/// another form, or aligns the stack.
pub fn words(code: &[u8]) -> Option<i64> {
    let code = code.strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa]).unwrap_or(code);
    // push %rbp; mov %rsp,%rbp, in one of its two encodings.
    let code = code.strip_prefix(&[0x55, 0x48])?;
    let mut code = code.strip_prefix(&[0x89, 0xe5]).or_else(|| code.strip_prefix(&[0x8b, 0xec]))?;
    let mut words = 1;
    loop {
        code = match code {
            [0x41, 0x50..=0x57, rest @ ..] | [0x50..=0x57, rest @ ..] => {
                words += 1;
                rest
            }
            [0x48, 0x83, 0xec, room, ..] => return whole(words, i64::from(*room as i8)),
            [0x48, 0x81, 0xec, a, b, c, d, ..] => {
                return whole(words, i64::from(i32::from_le_bytes([*a, *b, *c, *d])));
            }
            // and $-32,%rsp: the distance depends on the caller.
            [0x48, 0x83 | 0x81, 0xe4, ..] => return None,
            _ => return Some(words),
        };
    }
}

fn whole(words: i64, room_bytes: i64) -> Option<i64> {
    (room_bytes >= 0 && room_bytes % 8 == 0).then_some(words + room_bytes / 8)
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn pushes_and_room_are_counted() {
        // push %rbp; mov %rsp,%rbp; push %r15; push %rbx; sub $0x18,%rsp
        let code = [0x55, 0x48, 0x89, 0xe5, 0x41, 0x57, 0x53, 0x48, 0x83, 0xec, 0x18, 0x90];
        assert_eq!(words(&code), Some(1 + 2 + 3));
        // endbr64 in front, and room of 0x1000 bytes.
        let far = [0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5, 0x48, 0x81, 0xec, 0, 0x10, 0, 0];
        assert_eq!(words(&far), Some(1 + 512));
        // No room at all.
        assert_eq!(words(&[0x55, 0x48, 0x89, 0xe5, 0x53, 0x31, 0xc0]), Some(2));
    }

    #[test]
    fn other_prologues_and_aligned_stacks_are_not_guessed() {
        for code in [
            &[0x41, 0x57, 0x55][..],
            &[0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xe4, 0xe0],
            &[0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x15],
            &[0x55, 0x48],
            &[],
        ] {
            assert_eq!(words(code), None, "{code:x?}");
        }
    }
}
