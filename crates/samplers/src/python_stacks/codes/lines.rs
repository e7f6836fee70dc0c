//! From an instruction to a source line: the three encodings CPython used, turned into one table.
//!
//! How it works: each parser produces rows of (end of the byte range, line), in order of the
//! bytecode; a lookup is a binary search. Sources: `Objects/lnotab_notes.txt` (3.9 `co_lnotab`,
//! 3.10 `co_linetable`) and `Objects/locations.md` (3.11 and later) in CPython.
//!
//! What it promises: the line `frame.f_lineno` gives, exactly; no input panics or loops.
//! Line 0 means that the bytes have no source line. What is missing on purpose: columns.

/// One range of bytecode, from the end of the row before it up to `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub end: u32,
    pub line: u32,
}

/// Which of the three encodings a version uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// 3.9: pairs (bytes, signed lines), the line changes after the bytes.
    Lnotab,
    /// 3.10: pairs (bytes, signed lines or -128 for none), the line holds for the bytes.
    Linetable,
    /// 3.11 and later: variable-length location entries.
    Locations,
}

/// Parses a line table.
pub(crate) fn parse(encoding: Encoding, table: &[u8], first_line: i32) -> Vec<Row> {
    let mut rows = match encoding {
        Encoding::Lnotab => lnotab(table, first_line),
        Encoding::Linetable => linetable(table, first_line),
        Encoding::Locations => locations(table, first_line),
    };
    rows.dedup_by(|next, row| {
        let same = next.line == row.line;
        if same {
            row.end = next.end;
        }
        same
    });
    rows.shrink_to_fit();
    rows
}

/// The line of the instruction at byte `offset`; the first line in front of the first one.
pub(crate) fn line_at(rows: &[Row], offset: i64, first_line: u32) -> u32 {
    let Ok(offset) = u32::try_from(offset) else {
        return first_line;
    };
    let index = rows.partition_point(|row| row.end <= offset);
    rows.get(index).map_or(0, |row| row.line)
}

fn positive(line: i32) -> u32 {
    u32::try_from(line).unwrap_or(0)
}

fn lnotab(table: &[u8], first_line: i32) -> Vec<Row> {
    let mut rows = Vec::new();
    let (mut end, mut line) = (0u32, first_line);
    for pair in table.chunks_exact(2) {
        end = end.saturating_add(u32::from(pair[0]));
        if pair[0] != 0 {
            rows.push(Row { end, line: positive(line) });
        }
        line = line.wrapping_add(i32::from(pair[1] as i8));
    }
    rows.push(Row { end: u32::MAX, line: positive(line) });
    rows
}

fn linetable(table: &[u8], first_line: i32) -> Vec<Row> {
    let mut rows = Vec::new();
    let (mut end, mut line) = (0u32, first_line);
    for pair in table.chunks_exact(2) {
        end = end.saturating_add(u32::from(pair[0]));
        let delta = pair[1] as i8;
        if delta != -128 {
            line = line.wrapping_add(i32::from(delta));
        }
        if pair[0] != 0 {
            let line = if delta == -128 { 0 } else { positive(line) };
            rows.push(Row { end, line });
        }
    }
    rows
}

fn locations(table: &[u8], first_line: i32) -> Vec<Row> {
    let mut rows = Vec::new();
    let (mut end, mut line) = (0u32, first_line);
    let mut at = 0;
    while let Some(&first) = table.get(at) {
        let (kind, units) = ((first >> 3) & 15, u32::from(first & 7) + 1);
        let delta = match kind {
            10..=12 => i32::from(kind) - 10,
            13 | 14 => signed_varint(&table[at + 1..]),
            _ => 0,
        };
        line = line.wrapping_add(delta);
        end = end.saturating_add(units * 2);
        rows.push(Row { end, line: if kind == 15 { 0 } else { positive(line) } });
        // Only the first byte of an entry has its top bit set.
        at += 1 + table[at + 1..].iter().take_while(|byte| **byte & 0x80 == 0).count();
    }
    rows
}

fn signed_varint(bytes: &[u8]) -> i32 {
    let mut value = 0u32;
    for (index, byte) in bytes.iter().take(5).enumerate() {
        value |= u32::from(byte & 0x3f).wrapping_shl(6 * index as u32);
        if byte & 0x40 == 0 {
            break;
        }
    }
    let magnitude = (value >> 1) as i32;
    if value & 1 == 1 {
        magnitude.wrapping_neg()
    } else {
        magnitude
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lnotab_changes_the_line_after_the_bytes() {
        let rows = parse(Encoding::Lnotab, &[6, 1, 50, 2, 10, 0xff], 10);
        let lines: Vec<u32> =
            [0, 5, 6, 55, 56, 66, 999].map(|offset| line_at(&rows, offset, 10)).into();
        assert_eq!(lines, [10, 10, 11, 11, 13, 12, 12]);
    }

    #[test]
    fn linetable_knows_bytes_without_a_line() {
        let rows = parse(Encoding::Linetable, &[6, 1, 4, 0x80, 2, 2], 10);
        let lines: Vec<u32> = [0, 6, 9, 10].map(|offset| line_at(&rows, offset, 10)).into();
        assert_eq!(lines, [11, 0, 0, 13]);
    }

    #[test]
    fn locations_cover_short_one_line_long_and_none() {
        // Short form, 2 units; one-line form with +1, 1 unit; no column, -3, 1 unit; none, 1 unit;
        // long form, +70, 1 unit.
        let table = [
            0x80 | 1,
            0x00,
            0x80 | (11 << 3),
            0,
            4,
            0x80 | (13 << 3),
            7,
            0x80 | (15 << 3),
            0x80 | (14 << 3),
            0x4c,
            0x02,
            0,
            1,
            1,
        ];
        let rows = parse(Encoding::Locations, &table, 10);
        let lines: Vec<u32> =
            [-2, 0, 2, 4, 6, 8, 10].map(|offset| line_at(&rows, offset, 10)).into();
        assert_eq!(lines, [10, 10, 10, 11, 8, 0, 78]);
    }

    #[test]
    fn no_bytes_make_a_parser_panic() {
        let mut state = 1u32;
        for length in 0..200 {
            let table: Vec<u8> = (0..length)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (state >> 24) as u8
                })
                .collect();
            for encoding in [Encoding::Lnotab, Encoding::Linetable, Encoding::Locations] {
                line_at(&parse(encoding, &table, 1), 6, 1);
            }
        }
    }
}
