//! Names, tags and numbers in a form that servers read.
//!
//! What it promises: no text from here can end a line, begin a field, or be read as two tags. A
//! character that could is replaced by `_`, one for one, so different texts mostly stay different;
//! everything else, UTF-8 included, is left as it is.

use std::fmt::Write;

/// Appends a metric's name: `:`, `|`, `@`, `#`, `,`, control characters and white space become `_`.
pub(crate) fn name(out: &mut String, text: &str) {
    let bad = |c: char| matches!(c, ':' | '|' | '@' | '#' | ',') || odd(c) || c.is_whitespace();
    replaced(out, text, bad);
}

/// Appends a tag's key: `:`, `|`, `,`, `#` and control characters become `_`.
pub(crate) fn key(out: &mut String, text: &str) {
    replaced(out, text, |c| matches!(c, ':' | '|' | ',' | '#') || odd(c));
}

/// Appends a tag's value: `|`, `,` and control characters become `_`; the server cuts a tag at its
/// first `:`, so later ones may stay.
pub(crate) fn value(out: &mut String, text: &str) {
    replaced(out, text, |c| matches!(c, '|' | ',') || odd(c));
}

/// Appends a member of a set, or another field's text: `|` and control characters become `_`.
pub(crate) fn field(out: &mut String, text: &str) {
    replaced(out, text, |c| c == '|' || odd(c));
}

/// As `field`, and `:` too, where it would separate values.
pub(crate) fn plain_field(out: &mut String, text: &str) {
    replaced(out, text, |c| matches!(c, '|' | ':') || odd(c));
}

/// Appends free text of an event: line ends become `\n` in two characters, as the protocol wants
/// it; carriage returns go; other control characters become `_`.
pub(crate) fn prose(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => {}
            c if odd(c) && c != '\t' => out.push('_'),
            c => out.push(c),
        }
    }
}

/// NUL, line ends, other controls, and the two Unicode line ends.
fn odd(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
}

fn replaced(out: &mut String, text: &str, bad: impl Fn(char) -> bool) {
    if !text.contains(&bad) {
        return out.push_str(text);
    }
    out.extend(text.chars().map(|c| if bad(c) { '_' } else { c }));
}

/// Appends a number: integers without a point, others as short as they can be read back exactly,
/// never with an exponent (npm's `statsd` cuts a rate at its `e`). A NaN or an infinity cannot be
/// sent; callers check first.
pub(crate) fn number(out: &mut String, value: f64) {
    // Most values are small integers, and those print four times faster than floats do. -0 is 0:
    // a sign would make a gauge's value a delta.
    let whole = value as i64;
    let fits = value.abs() < 9e15 && whole as f64 == value;
    let _ = match fits {
        true => write!(out, "{whole}"),
        false => write!(out, "{value}"),
    };
}

/// Appends the rate of values that stand for `weight` (1 or more) each. The rate is slightly below
/// 1/weight at most: a server that computes a whole number from it rounds down to `weight`.
pub(crate) fn rate(out: &mut String, weight: f64) {
    let mut rate = 1.0 / weight;
    while 1.0 / rate < weight {
        rate = f64::from_bits(rate.to_bits() - 1);
    }
    number(out, rate);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(with: impl Fn(&mut String)) -> String {
        let mut out = String::new();
        with(&mut out);
        out
    }

    #[test]
    fn numbers_are_as_servers_read_them() {
        let cases = [
            (5.0, "5"),
            (-5.0, "-5"),
            (-0.0, "0"),
            (0.1, "0.1"),
            (0.30000000000000004, "0.30000000000000004"),
            (9007199254740993.0, "9007199254740992"),
            (1e21, "1000000000000000000000"),
            (1e-7, "0.0000001"),
            (1.5e300, &("15".to_owned() + &"0".repeat(299))),
            (i64::MIN as f64, "-9223372036854776000"),
        ];
        for (value, wanted) in cases {
            assert_eq!(made(|o| number(o, value)), wanted);
        }
        for bits in (0..u64::MAX / 1_000_003).step_by(1 << 30).map(|n| n * 1_000_003) {
            let value = f64::from_bits(bits);
            let text = made(|o| number(o, value));
            if value.is_finite() {
                assert_eq!(text.parse::<f64>().ok(), Some(value), "{text}");
                assert!(!text.contains(['e', 'E']), "{text}");
            }
        }
    }

    #[test]
    fn rates_come_back_as_whole_weights() {
        for weight in 1..20_000u32 {
            let text = made(|o| rate(o, f64::from(weight)));
            let back = 1.0 / text.parse::<f64>().expect("a number");
            assert_eq!(back as u32, weight, "{text}");
            assert!((back - f64::from(weight)).abs() < 1e-9, "{text}");
        }
        assert_eq!(made(|o| rate(o, 10.0)), "0.1");
        assert_eq!(made(|o| rate(o, 1e6)), "0.000001");
    }

    #[test]
    fn nothing_can_end_a_line_or_begin_a_field() {
        let nasty = "a:b|c@d#e,f\ng\r\u{2028}h\0i j\té";
        assert_eq!(made(|o| name(o, nasty)), "a_b_c_d_e_f_g__h_i_j_é");
        assert_eq!(made(|o| key(o, nasty)), "a_b_c@d_e_f_g__h_i j_é");
        assert_eq!(made(|o| value(o, nasty)), "a:b_c@d#e_f_g__h_i j_é");
        assert_eq!(made(|o| field(o, nasty)), "a:b_c@d#e,f_g__h_i j_é");
        assert_eq!(made(|o| plain_field(o, nasty)), "a_b_c@d#e,f_g__h_i j_é");
        assert_eq!(made(|o| prose(o, "one\r\ntwo|three\0")), "one\\ntwo|three_");
    }
}
