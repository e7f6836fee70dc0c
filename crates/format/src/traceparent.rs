//! The headers `traceparent` and `tracestate` of the W3C recommendation "Trace Context".
//!
//! ```text
//!  00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
//!  version (2) | trace id (32) | parent's span id (16) | flags (2), all lower-case hex digits
//! ```
//! Version `ff` and ids of zeros are invalid. Version `00` has exactly this length; a later version
//! may continue behind a further dash, and its first four fields are read. Of the flags only
//! `sampled` is read and passed on. If `traceparent` is not valid, `tracestate` must not be used.

use std::fmt::Write;

/// Characters of a `traceparent` of version 00.
pub const LENGTH: usize = 55;
/// Most characters of a `tracestate` that are passed on.
pub const STATE_MOST: usize = 512;
/// Most members of a `tracestate`.
const MEMBERS_MOST: usize = 32;

/// The caller's span, from a `traceparent`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remote {
    /// Trace id, never 0.
    pub trace: u128,
    /// The caller's span id, never 0.
    pub span: u64,
    /// The caller may have recorded it.
    pub sampled: bool,
}

/// Reads the value of a `traceparent` header. None: it is not valid, and the trace begins here.
pub fn parse(header: &str) -> Option<Remote> {
    let bytes = header.trim_matches([' ', '\t']).as_bytes();
    let (fixed, rest) = bytes.split_at_checked(LENGTH)?;
    let version = hex(&fixed[..2])?;
    let is_whole = match version {
        0 => rest.is_empty(),
        0xff => false,
        _ => rest.first().is_none_or(|byte| *byte == b'-'),
    };
    let dashes = [2, 35, 52].iter().all(|at| fixed[*at] == b'-');
    if !is_whole || !dashes {
        return None;
    }
    let (high, low) = (hex(&fixed[3..19])?, hex(&fixed[19..35])?);
    let trace = (u128::from(high) << 64) | u128::from(low);
    let (span, flags) = (hex(&fixed[36..52])?, hex(&fixed[53..])?);
    (trace != 0 && span != 0).then_some(Remote { trace, span, sampled: flags & 1 == 1 })
}

/// The value of a `traceparent` header, version 00.
pub fn text(span: &Remote) -> String {
    let mut out = String::with_capacity(LENGTH);
    // Writing to a String cannot fail.
    let _ = write!(out, "00-{:032x}-{:016x}-{:02x}", span.trace, span.span, u8::from(span.sampled));
    out
}

/// What of a `tracestate` may be passed on: its members without blanks and empty ones. None: it is
/// empty or not valid as a whole (a malformed member, a key twice, over 32 members). Members that
/// do not fit into 512 characters are left out from the end.
pub fn state(header: &str) -> Option<String> {
    let members =
        || header.split(',').map(|m| m.trim_matches([' ', '\t'])).filter(|m| !m.is_empty());
    let key = |member: &str| member.split_once('=').map(|(key, _)| key.to_owned());
    let mut keys: Vec<String> = members().filter_map(key).collect();
    let count = keys.len();
    keys.sort();
    keys.dedup();
    if count == 0 || count > MEMBERS_MOST || keys.len() != count || !members().all(is_member) {
        return None;
    }
    let mut out = String::new();
    for member in members() {
        let comma = usize::from(!out.is_empty());
        if out.len() + comma + member.len() > STATE_MOST {
            break;
        }
        if comma == 1 {
            out.push(',');
        }
        out.push_str(member);
    }
    Some(out)
}

fn is_member(member: &str) -> bool {
    let Some((key, value)) = member.split_once('=') else { return false };
    let in_key = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-*/@".contains(&b);
    let begins = key.bytes().next().is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let in_value = |b: u8| (0x20..0x7f).contains(&b) && b != b',' && b != b'=';
    let key_fits = key.len() <= 256 && begins && key.bytes().all(in_key);
    key_fits && (1..=256).contains(&value.len()) && value.bytes().all(in_value)
}

/// At most 16 lower-case hex digits.
fn hex(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |number: u64, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some((number << 4) | u64::from(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_valid_traceparent_survives_encoding() {
        let read = parse(GOOD).expect("valid");
        assert_eq!(read.trace, 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!((read.span, read.sampled), (0x00f0_67aa_0ba9_02b7, true));
        assert_eq!(text(&read), GOOD);
        assert_eq!(parse(&format!(" {GOOD}\t")), Some(read));
        // Flags that are not known are not passed on.
        let flags = |f: &str| format!("{}-{f}", &GOOD[..52]);
        assert_eq!(parse(&flags("00")).map(|r| r.sampled), Some(false));
        assert_eq!(parse(&flags("ff")), Some(read));
        assert_eq!(parse(&flags("02")).map(|r| r.sampled), Some(false));
    }

    #[test]
    fn later_versions_are_read_by_their_first_fields() {
        let later = |rest: &str| format!("cc{}{rest}", &GOOD[2..]);
        assert_eq!(parse(&later("")), parse(GOOD));
        assert_eq!(parse(&later("-what-the-future-will-be-like")), parse(GOOD));
        assert_eq!(parse(&later(".what")), None);
        assert_eq!(parse(&later(",cc")), None);
    }

    #[test]
    fn what_the_recommendation_forbids_is_refused() {
        let instead = |from: usize, with: &str| {
            format!("{}{with}{}", &GOOD[..from], &GOOD[from + with.len()..])
        };
        for wrong in [
            String::new(),
            "00".to_owned(),
            GOOD[..54].to_owned(),
            format!("{GOOD}-"),
            format!("{GOOD}-more"),
            format!("{GOOD},{GOOD}"),
            instead(0, "ff"),
            instead(0, "0G"),
            instead(2, "_"),
            instead(3, "00000000000000000000000000000000"),
            instead(36, "0000000000000000"),
            instead(3, "4BF9"),
            instead(36, "00F0"),
            instead(53, "0x"),
            instead(53, "1."),
            instead(10, "\u{e4}"),
            "\u{e4}".repeat(40),
        ] {
            assert_eq!(parse(&wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_state_is_passed_on_whole_or_not_at_all() {
        assert_eq!(state("a=1, b=2 ,,c=3").as_deref(), Some("a=1,b=2,c=3"));
        assert_eq!(state("t61@vendor=x y").as_deref(), Some("t61@vendor=x y"));
        for wrong in ["", " , ", "a", "a=", "=1", "A=1", "a=1,a=2", "a=1=2", "a=\u{e4}", "*a=1"] {
            assert_eq!(state(wrong), None, "{wrong:?}");
        }
        let many =
            |count: usize| (0..count).map(|i| format!("k{i}=v")).collect::<Vec<_>>().join(",");
        assert!(state(&many(32)).is_some());
        assert_eq!(state(&many(33)), None);
        let long: Vec<String> = (0..4).map(|i| format!("k{i}={}", "v".repeat(200))).collect();
        let kept = state(&long.join(",")).expect("valid");
        assert_eq!(kept, long[..2].join(","), "members are never cut in two");
    }
}
