//! Rows for a terminal: columns as wide as their content, times, no control characters.

/// One line for the head and one for each row, with line ends.
pub fn columns(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut lines: Vec<Vec<String>> = vec![head.iter().map(|name| (*name).to_owned()).collect()];
    lines.extend(rows);
    let longest = |i: usize| lines.iter().filter_map(|l| l.get(i)).map(|c| c.chars().count()).max();
    let widths: Vec<usize> = (0..head.len()).map(|i| longest(i).unwrap_or(0)).collect();
    let line = |cells: &Vec<String>| {
        let cells = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<String>>().join("  ").trim_end().to_owned() + "\n"
    };
    lines.iter().map(line).collect()
}

/// Control characters in another process's text must not reach this terminal.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// `2026-11-21 11:14:03 +01:00` of a Unix epoch time, as this shell's `TZ` has it.
pub fn local(epoch_ns: u64) -> String {
    with_offset(epoch_ns, sys::clock::utc_offset_s((epoch_ns / 1_000_000_000) as i64))
}

fn with_offset(epoch_ns: u64, offset_s: i64) -> String {
    let here_ns = epoch_ns.saturating_add_signed(offset_s.saturating_mul(1_000_000_000));
    let (sign, minutes) = (if offset_s < 0 { '-' } else { '+' }, offset_s.abs() / 60);
    format!("{} {sign}{:02}:{:02}", utc(here_ns), minutes / 60, minutes % 60)
}

/// `2026-11-21 10:14:03` of a Unix epoch time.
pub fn utc(epoch_ns: u64) -> String {
    let seconds = epoch_ns / 1_000_000_000;
    let (days, clock) = (seconds / 86_400, seconds % 86_400);
    // Days to a date: the number of whole years, then of months, by subtraction.
    let leap = |y: u64| y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
    let (mut year, mut left) = (1970, days);
    while left >= 365 + u64::from(leap(year)) {
        left -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if left < length {
            break;
        }
        left -= length;
        month += 1;
    }
    let (h, m, s) = (clock / 3600, clock / 60 % 60, clock % 60);
    format!("{year:04}-{month:02}-{:02} {h:02}:{m:02}:{s:02}", left + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc() {
        assert_eq!(utc(0), "1970-01-01 00:00:00");
        assert_eq!(utc(951_782_400_000_000_000), "2000-02-29 00:00:00");
        assert_eq!(utc(1_795_256_043_000_000_000), "2026-11-21 10:14:03");
    }

    #[test]
    fn local_times_have_their_offset() {
        let at = 1_795_256_043_000_000_000;
        assert_eq!(with_offset(at, 0), "2026-11-21 10:14:03 +00:00");
        assert_eq!(with_offset(at, 5 * 3600 + 1800), "2026-11-21 15:44:03 +05:30");
        assert_eq!(with_offset(at, -11 * 3600), "2026-11-20 23:14:03 -11:00");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["4711", "bil", "x"], ["1", "büro", ""]].map(|r| r.map(str::to_owned).to_vec());
        let text = columns(&["PID", "NAME", "BOX"], rows);
        assert_eq!(text, "PID   NAME  BOX\n4711  bil   x\n1     büro\n");
    }
}
