//! Rows for a terminal: columns as wide as their content, times, sizes, no control characters.

use std::time::{SystemTime, UNIX_EPOCH};

const SECOND_NS: u64 = 1_000_000_000;

/// As `columns`, in lines of at most `width` characters: the last column is cut.
pub fn columns_within(
    width: usize,
    head: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
) -> String {
    columns(head, rows).lines().map(|line| cut(line, width) + "\n").collect()
}

/// At most this many characters; what is left out is an ellipsis.
pub fn cut(text: &str, width: usize) -> String {
    match text.chars().count() > width {
        true => text.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

/// Bytes as a person reads them: `190 KiB`, `64 MiB`, `1.3 MiB`.
pub fn bytes_text(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let power = (0..UNITS.len()).rev().find(|power| bytes >> (10 * power) > 0).unwrap_or(0);
    let amount = bytes as f64 / (1u64 << (10 * power)) as f64;
    let digits = usize::from(power > 1 && amount.fract() != 0.0);
    format!("{amount:.digits$} {}", UNITS[power])
}

/// Now, Unix epoch.
pub fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}

/// `40 s`, `3 min`, `5 h`, `2 days`.
pub fn age(ns: u64) -> String {
    let seconds = ns / SECOND_NS;
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds / 60),
        7_200..=172_799 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

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
    fn lines_are_cut_at_the_width_of_the_terminal() {
        let rows = [["4711", "sleep at büro.py:28"]].map(|r| r.map(str::to_owned).to_vec());
        let text = columns_within(16, &["PID", "VERDICT"], rows);
        assert_eq!(text, "PID   VERDICT\n4711  sleep at …\n");
    }

    #[test]
    fn sizes_have_the_unit_that_fits() {
        let sizes = [0, 1023, 64 << 10, 1_380_352, 64 << 20, 1 << 30].map(bytes_text);
        assert_eq!(sizes, ["0 B", "1023 B", "64 KiB", "1.3 MiB", "64 MiB", "1 GiB"]);
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["4711", "bil", "x"], ["1", "büro", ""]].map(|r| r.map(str::to_owned).to_vec());
        let text = columns(&["PID", "NAME", "BOX"], rows);
        assert_eq!(text, "PID   NAME  BOX\n4711  bil   x\n1     büro\n");
    }
}
