//! Rules of `on_error=`: which failed requests trigger a capture.

use crate::crowd::Crowd;
use crate::rules::name_matches;
use crate::units::{duration_ns, Wrong};

/// The largest number of rules.
pub const MOST_ERROR_RULES: usize = 16;

/// Rules in the order given, `KIND`, `KIND(NAME)` or `KIND(NAME)>5%/30s` each. KIND is `error` (any
/// error; `errors` too) or the name of an exception's type, whole or as a glob; NAME is a request's
/// name, as in `slow=`. With a share the rule fires when more than that share of the requests of
/// that name ended so in the window. Empty text: no rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorRules {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    text: String,
    /// None: any error.
    kind: Option<String>,
    /// None: any request.
    name: Option<String>,
    rate: Option<Rate>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rate {
    allowed_ppm: u64,
    window_ns: u64,
}

impl ErrorRules {
    /// Reads rules separated by commas. An error names the rule that is not valid.
    pub fn parse(text: &str) -> Result<ErrorRules, Wrong> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let rules: Vec<Rule> = parts.map(parse_rule).collect::<Result<_, _>>()?;
        if rules.len() > MOST_ERROR_RULES {
            return Err(refuse(text));
        }
        Ok(ErrorRules { rules })
    }

    /// The rules that apply to requests of this name, a bit each.
    pub fn of_name(&self, name: &str) -> u16 {
        self.bits(|r| r.name.as_ref().is_none_or(|pattern| name_matches(pattern, name)))
    }

    /// The rules that apply to errors of this type, a bit each; "": an error without a type.
    pub fn of_kind(&self, kind: &str) -> u16 {
        self.bits(|rule| match &rule.kind {
            None => true,
            Some(_) if kind.is_empty() => false,
            // A word without a star is the whole name of a type: KeyError does not match
            // MonkeyError.
            Some(pattern) => pattern == kind || (is_glob(pattern) && name_matches(pattern, kind)),
        })
    }

    /// The rules that fire at each error, a bit each; the others fire by the share of errors.
    pub fn single(&self) -> u16 {
        self.bits(|rule| rule.rate.is_none())
    }

    /// For each rule its text and, if it fires by share, its counter.
    pub fn crowds(&self) -> Vec<(String, Option<Crowd>)> {
        let crowd = |rate: Rate| Crowd::new(rate.allowed_ppm, rate.window_ns);
        self.rules.iter().map(|rule| (rule.text.clone(), rule.rate.map(crowd))).collect()
    }

    fn bits(&self, which: impl Fn(&Rule) -> bool) -> u16 {
        let set = self.rules.iter().enumerate().filter(|(_, rule)| which(rule));
        set.fold(0, |bits, (i, _)| bits | 1 << i)
    }
}

fn is_glob(pattern: &str) -> bool {
    pattern.contains(['*', '?'])
}

fn parse_rule(text: &str) -> Result<Rule, Wrong> {
    let wrong = || refuse(text);
    let (subject, rate) = match text.rsplit_once('>') {
        None => (text, None),
        Some((subject, rate)) => (subject.trim(), Some(parse_rate(rate).ok_or_else(wrong)?)),
    };
    let (kind, name) = match subject.split_once('(') {
        None => (subject, None),
        Some((kind, name)) => (kind.trim(), Some(name.strip_suffix(')').ok_or_else(wrong)?.trim())),
    };
    let is_type = |c: char| c.is_alphanumeric() || "_.:*?".contains(c);
    if kind.is_empty() || !kind.chars().all(is_type) || name.is_some_and(str::is_empty) {
        return Err(wrong());
    }
    Ok(Rule {
        text: text.to_owned(),
        kind: (!["error", "errors"].contains(&kind)).then(|| kind.to_owned()),
        name: name.map(str::to_owned),
        rate,
    })
}

/// `5%/30s`: at least 0.01 % and below 100 %, over 1 s to 1 h.
fn parse_rate(text: &str) -> Option<Rate> {
    let (share, window) = text.split_once('/')?;
    let percent: f64 = share.trim().strip_suffix('%')?.trim().parse().ok()?;
    let window_ns = duration_ns("on_error", window).ok()?;
    let right = (0.01..100.0).contains(&percent)
        && (1_000_000_000..=3_600_000_000_000).contains(&window_ns);
    right.then_some(Rate { allowed_ppm: (percent * 10_000.0).round() as u64, window_ns })
}

fn refuse(found: &str) -> Wrong {
    Wrong {
        what: "on_error".to_owned(),
        found: found.to_owned(),
        wanted: format!(
            "error, a type like TimeoutError or *Timeout*, one by name like error(checkout), or a \
             share over 1s to 1h like errors(checkout)>5%/30s, at most {MOST_ERROR_RULES} with commas"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_speaks_of_a_type_and_a_name() {
        let rules =
            ErrorRules::parse("error(checkout), TimeoutError, *Key*(GET /a/*)").expect("valid");
        assert_eq!(rules.of_name("GET /checkout"), 0b011);
        assert_eq!(rules.of_name("GET /a/b"), 0b110);
        assert_eq!(rules.of_kind("TimeoutError"), 0b011);
        assert_eq!(rules.of_kind("KeyError"), 0b101);
        assert_eq!(rules.of_kind("ReadTimeoutError"), 0b001, "a word is the type itself");
        assert_eq!(rules.of_kind(""), 0b001);
        assert_eq!(rules.single(), 0b111);
        assert_eq!(ErrorRules::parse(" ").expect("none").of_name("x"), 0);
    }

    #[test]
    fn a_share_is_over_when_more_requests_failed_than_it_allows() {
        let rules = ErrorRules::parse("errors(checkout)>5%/30s, ValueError").expect("valid");
        assert_eq!(rules.single(), 0b10);
        let mut crowds = rules.crowds();
        assert_eq!(crowds[0].0, "errors(checkout)>5%/30s");
        let crowd = crowds[0].1.as_mut().expect("a share");
        crowd.note(1, 0, 0);
        crowd.note(2, 100, 5);
        assert_eq!(crowd.is_over(), None, "5 % is not more than 5 %");
        crowd.note(3, 101, 6);
        assert_eq!(crowd.is_over(), Some((101, 6)));
        assert!(crowds[1].1.is_none());
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_accepted_forms() {
        for text in [
            "error()",
            "(x)",
            "error(x",
            "a b",
            "error>5/30s",
            "error>5%",
            "error>0%/30s",
            "error>100%/30s",
            "error>5%/1ms",
            ">5%/30s",
            "500ms>",
            "<script>",
        ] {
            let refused = ErrorRules::parse(text).expect_err(text).to_string();
            assert!(refused.starts_with("on_error: found") && refused.contains("error(checkout)"));
        }
        let many = vec!["error"; 17].join(",");
        assert!(ErrorRules::parse(&many).is_err());
    }
}
