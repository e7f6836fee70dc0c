//! Numbers and names as a person reads them: lengths of time, counts, text of the program that was
//! recorded.

/// `1.01 s`, `654 ms`; one digit below 10 ms; `3.1 µs` of what that would round to nothing.
pub fn ms_text(ms: f64) -> String {
    if ms > 0.0 && ms < 0.05 {
        let us = ms * 1000.0;
        return format!("{us:.*} µs", usize::from(us < 9.95));
    }
    match ms.round() {
        whole if whole < 1e3 => offset_text(ms),
        whole => format!("{} s", seconds_text(whole / 1e3)),
    }
}

/// Whether a part of something is too small for a percentage to show: under 1 %.
pub fn is_under_a_percent(part: f64) -> bool {
    part < 0.01
}

/// A time since a begin, `1,006 ms`: to the millisecond, since two of them are compared.
pub fn offset_text(ms: f64) -> String {
    match ms {
        ms if ms < 10.0 => format!("{ms:.1} ms"),
        ms => format!("{} ms", thousands(ms.round() as u64)),
    }
}

/// Three significant digits: `1.01`, `1.2`, `12.3`, `1,204`.
fn seconds_text(s: f64) -> String {
    let digits = match s {
        s if s < 9.995 => 2,
        s if s < 99.95 => 1,
        s => return thousands(s.round() as u64),
    };
    format!("{s:.digits$}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// `4,812`.
pub fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// `5.1 ms` of nanoseconds.
pub fn ns_text(ns: u64) -> String {
    ms_text(ns as f64 / 1e6)
}

/// So many of them, in words: "1 request", "4,812 requests".
pub fn counted(n: usize, what: &str) -> String {
    format!("{} {what}{}", thousands(n as u64), if n == 1 { "" } else { "s" })
}

/// Text of the recorded program for a line of ours: it brings no line of its own, and no control
/// character reaches a terminal.
pub fn plain(text: &str) -> String {
    let keep = |c: char| !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}');
    text.chars().map(|c| if keep(c) { c } else { '?' }).collect()
}

/// Requests that began this near to each other belong to one burst.
const BURST_NS: u64 = 500_000_000;

/// When requests began, to be written behind their number: `; in 4 bursts, 1.5-2.1 s apart`, `; all
/// within half a second`, `; over 7.9 s`; nothing of one request.
pub fn rhythm(seen_ns: &[u64]) -> String {
    let (Some(first), Some(last), true) = (seen_ns.first(), seen_ns.last(), seen_ns.len() > 1)
    else {
        return String::new();
    };
    let seconds = |ns: u64| ns as f64 / 1e9;
    let mut gaps: Vec<u64> = Vec::new();
    let (mut burst, mut alone) = (*first, true);
    for pair in seen_ns.windows(2) {
        if pair[1] - pair[0] > BURST_NS {
            gaps.push(pair[1] - burst);
            burst = pair[1];
        } else {
            alone = false;
        }
    }
    match (gaps.iter().min(), gaps.iter().max()) {
        (Some(low), Some(high)) if gaps.len() >= 2 => {
            let bursts = gaps.len() + 1;
            let (low, high) = (format!("{:.1}", seconds(*low)), format!("{:.1}", seconds(*high)));
            let apart = if low == high { low } else { format!("{low}-{high}") };
            match alone {
                true => format!("; every {apart} s"),
                false => format!("; in {bursts} bursts, {apart} s apart"),
            }
        }
        _ if last - first <= BURST_NS => "; all within half a second".to_owned(),
        _ => format!("; over {:.1} s", seconds(last - first)),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_name_brings_no_line_and_no_escape_sequence() {
        assert_eq!(
            super::plain("GET /a\n1. sleep: \u{1b}[31mäöü\u{2028}"),
            "GET /a?1. sleep: ?[31mäöü?"
        );
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!(super::thousands(4812), "4,812");
        assert_eq!(super::thousands(1_000_000), "1,000,000");
        assert_eq!(super::thousands(12), "12");
        assert_eq!(super::ms_text(654.3), "654 ms");
        assert_eq!(super::ms_text(1006.4), "1.01 s");
        assert_eq!((super::ms_text(999.6), super::ms_text(1200.0)), ("1 s".into(), "1.2 s".into()));
        assert_eq!(super::ms_text(12_345.0), "12.3 s");
        assert_eq!(super::ms_text(1_204_000.0), "1,204 s");
        assert_eq!(super::offset_text(1006.4), "1,006 ms");
        assert_eq!(super::ms_text(5.06), "5.1 ms");
        assert_eq!(super::ms_text(0.0031), "3.1 µs");
        assert_eq!((super::ms_text(0.0), super::ms_text(0.06)), ("0.0 ms".into(), "0.1 ms".into()));
    }
}
