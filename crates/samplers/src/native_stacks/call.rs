//! Whether an address can be a return address: the instruction in front of it must be a call.

/// Bytes in front of an address that are checked.
pub const BEFORE: usize = 8;

/// Whether `code`, the bytes in front of an address, ends in a call instruction: `e8 rel32`, or
/// `ff /2` with any operand. Data may look like one by chance (about one word in a hundred).
pub fn ends_in_call(code: &[u8; BEFORE]) -> bool {
    if code[BEFORE - 5] == 0xe8 {
        return true;
    }
    (2..=7).any(|length| {
        let at = BEFORE - length;
        code[at] == 0xff && code[at + 1] >> 3 & 7 == 2 && indirect_length(&code[at + 1..]) == length
    })
}

/// Bytes of `ff /2` with its operand; `operand` begins with the ModRM byte.
fn indirect_length(operand: &[u8]) -> usize {
    let modrm = operand[0];
    let (mode, base) = (modrm >> 6, modrm & 7);
    if mode == 3 {
        return 2;
    }
    let scaled = usize::from(base == 4);
    // A scaled operand without a base register has a displacement of four bytes.
    let no_base = base == 4 && operand.get(1).is_some_and(|sib| sib & 7 == 5);
    let displacement = match mode {
        0 if base == 5 || no_base => 4,
        0 => 0,
        1 => 1,
        _ => 4,
    };
    2 + scaled + displacement
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_distinguished_from_other_instructions() {
        let calls: [(&str, [u8; BEFORE]); 7] = [
            ("call rel32", [0, 0, 0, 0xe8, 1, 2, 3, 4]),
            ("call rax", [0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0xd0]),
            ("call r12", [0x90, 0x90, 0x90, 0x90, 0x90, 0x41, 0xff, 0xd4]),
            ("call [rip+d]", [0x90, 0x90, 0xff, 0x15, 1, 2, 3, 4]),
            ("call [rax+8]", [0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0x50, 8]),
            ("call [r12+rax*8+8]", [0x90, 0x90, 0x90, 0x90, 0xff, 0x54, 0xc4, 8]),
            ("call [rax*8+d]", [0x90, 0xff, 0x14, 0xc5, 1, 2, 3, 4]),
        ];
        for (name, code) in calls {
            assert!(ends_in_call(&code), "{name}");
        }
        let others: [(&str, [u8; BEFORE]); 4] = [
            ("nothing", [0; BEFORE]),
            ("jmp rax", [0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0xe0]),
            ("push [rax]", [0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0x30]),
            ("ret", [0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x5d, 0xc3]),
        ];
        for (name, code) in others {
            assert!(!ends_in_call(&code), "{name}");
        }
    }
}
