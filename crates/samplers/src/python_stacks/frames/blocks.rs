//! A lower bound of the depth of the live value stack at an instruction, from the exception table.
//!
//! How it works: from 3.11 on, the compiler writes for every range of instructions inside a `with`
//! or `try` where the handler is and how many values it keeps on the stack. Those values are
//! therefore alive throughout the range. A `with` keeps the bound `__exit__` among them, so the
//! slot that holds it is below that depth exactly while the body runs; what lies above may be
//! stale. Source: `Objects/exception_handling_notes.txt` in CPython.
//!
//! What it promises: a lower bound, never more than is alive; no bytes make it panic.

/// The number of value-stack slots kept by the handler around byte `offset`; 0 outside of any.
pub(crate) fn kept_depth(table: &[u8], offset: i64) -> usize {
    let Ok(unit) = u32::try_from(offset / 2) else {
        return 0;
    };
    let mut at = 0;
    while at < table.len() {
        let mut numbers = [0u32; 4];
        for number in &mut numbers {
            *number = varint(table, &mut at);
        }
        let [start, length, _handler, depth_and_flag] = numbers;
        if (start..start.saturating_add(length)).contains(&unit) {
            return (depth_and_flag >> 1) as usize;
        }
    }
    0
}

/// Six bits a byte, most significant first; bit 6 means that more follow.
fn varint(table: &[u8], at: &mut usize) -> u32 {
    let mut value = 0u32;
    loop {
        let byte = table.get(*at).copied().unwrap_or(0);
        *at += 1;
        value = (value << 6) | u32::from(byte & 0x3f);
        if byte & 0x40 == 0 {
            return value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_depth_comes_from_the_handler_around_an_instruction() {
        // Units 3..10 keep 1 value, units 70..72 keep 3.
        let table = [0x80 | 3, 7, 20, 2, 0x80 | 0x41, 6, 2, 30, 7];
        let depths: Vec<usize> =
            [-2, 4, 6, 18, 20, 140, 144].map(|offset| kept_depth(&table, offset)).into();
        assert_eq!(depths, [0, 0, 1, 1, 0, 3, 0]);
    }

    #[test]
    fn cut_off_tables_end() {
        for length in 0..20 {
            kept_depth(&vec![0xff; length], 1 << 20);
            kept_depth(&vec![0x00; length], 1 << 20);
        }
    }
}
