//! Rules of `slow=`: limits by request name.

use crate::crowd::Crowd;
use crate::units::{duration_ns, show_ns, Wrong};

/// Limits in the order given. `500ms` holds for any request; `checkout>250ms` for names that
/// contain the word; `GET /api/*>1s` for names that match the glob as a whole;
/// `p99(checkout)>50ms/30s` when that percentile of the last 30 s is over the limit
/// (`p99>50ms/30s`: of all requests).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    /// None: any request.
    name: Option<String>,
    limit_ns: u64,
    /// The percentile that it applies to; None: each request is judged by itself.
    crowd: Option<Percentile>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Percentile {
    /// Requests that may be over the limit, parts per million.
    allowed_ppm: u64,
    window_ns: u64,
}

/// The largest number of percentile rules.
pub const MOST_CROWDS: usize = 15;

impl Rules {
    /// Reads rules separated by commas. An error names the rule that is not valid.
    pub fn parse(text: &str) -> Result<Rules, Wrong> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let rules: Vec<Rule> = parts.map(parse_rule).collect::<Result<_, _>>()?;
        if rules.is_empty() || rules.iter().filter(|r| r.crowd.is_some()).count() > MOST_CROWDS {
            return Err(refuse(text));
        }
        Ok(Rules { rules })
    }

    /// Number of the percentile rule for requests of this name, from 0; None: each is judged by
    /// itself.
    pub fn crowd_of(&self, name: &str) -> Option<usize> {
        let rule = self.strictest(name).filter(|rule| rule.crowd.is_some())?;
        self.rules.iter().filter(|r| r.crowd.is_some()).position(|r| std::ptr::eq(r, rule))
    }

    /// Counters for the percentile rules, in their order.
    pub fn crowds(&self) -> Vec<Crowd> {
        let percentiles = self.rules.iter().filter_map(|rule| rule.crowd);
        percentiles.map(|p| Crowd::new(p.allowed_ppm, p.window_ns)).collect()
    }

    /// The same rules with all limits multiplied; none falls below a microsecond.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Rules {
        let scale = |rule: &Rule| {
            let limit_ns = ((rule.limit_ns as f64 * factor) as u64 / 1000 * 1000).max(1000);
            Rule { limit_ns, ..rule.clone() }
        };
        Rules { rules: self.rules.iter().map(scale).collect() }
    }

    /// How long a request of this name may take, ns; `u64::MAX` when no rule applies to it. A rule
    /// with a name wins over the rules for any request; of several, the strictest holds.
    pub fn limit_ns(&self, name: &str) -> u64 {
        self.strictest(name).map_or(u64::MAX, |rule| rule.limit_ns)
    }

    fn strictest(&self, name: &str) -> Option<&Rule> {
        let strictest = |named: bool| {
            let fits = |rule: &&Rule| match &rule.name {
                None => !named,
                Some(pattern) => named && name_matches(pattern, name),
            };
            self.rules.iter().filter(fits).min_by_key(|rule| rule.limit_ns)
        };
        strictest(true).or_else(|| strictest(false))
    }
}

/// As `parse` reads them.
impl std::fmt::Display for Rules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, rule) in self.rules.iter().enumerate() {
            f.write_str(if i > 0 { ", " } else { "" })?;
            let name = rule.name.as_deref().unwrap_or_default();
            let limit = show_ns(rule.limit_ns);
            match (rule.crowd, name) {
                (None, "") => write!(f, "{limit}")?,
                (None, _) => write!(f, "{name}>{limit}")?,
                (Some(p), _) => {
                    let percent = 100.0 - p.allowed_ppm as f64 / 10_000.0;
                    let name = if name.is_empty() { String::new() } else { format!("({name})") };
                    write!(f, "p{percent}{name}>{limit}/{}", show_ns(p.window_ns))?;
                }
            }
        }
        Ok(())
    }
}

fn parse_rule(text: &str) -> Result<Rule, Wrong> {
    let (name, duration) = match text.rsplit_once('>') {
        None => ("", text),
        Some((name, duration)) if !name.trim().is_empty() => (name.trim(), duration),
        Some(_) => return Err(refuse(text)),
    };
    let (name, crowd, duration) = match percentile(name) {
        None => (name, None, duration),
        Some((allowed_ppm, name)) => {
            let (duration, window) = duration.split_once('/').ok_or_else(|| refuse(text))?;
            let window_ns = duration_ns("slow", window).map_err(|_| refuse(text))?;
            if !(1_000_000_000..=3_600_000_000_000).contains(&window_ns) {
                return Err(refuse(text));
            }
            (name, Some(Percentile { allowed_ppm, window_ns }), duration)
        }
    };
    let name = (!name.is_empty()).then(|| name.to_owned());
    Ok(Rule { name, limit_ns: limit(duration, text)?, crowd })
}

/// `p99.9(checkout)` as (parts per million over it, `checkout`); None: not a percentile.
fn percentile(text: &str) -> Option<(u64, &str)> {
    let rest = text.strip_prefix('p')?;
    let (number, name) = match rest.split_once('(') {
        Some((number, name)) => (number, name.strip_suffix(')')?.trim()),
        None => (rest, ""),
    };
    let percent: f64 = number.trim().parse().ok().filter(|p| *p >= 1.0 && *p < 100.0)?;
    Some((((100.0 - percent) * 10_000.0).round() as u64, name))
}

fn limit(duration: &str, rule: &str) -> Result<u64, Wrong> {
    duration_ns("slow", duration).map_err(|_| refuse(rule))
}

fn refuse(found: &str) -> Wrong {
    Wrong {
        what: "slow".to_owned(),
        found: found.to_owned(),
        wanted:
            "a limit like 500ms, one by name like checkout>250ms, or a percentile over 1s to 1h \
                 like p99(checkout)>50ms/30s, several with commas"
                .to_owned(),
    }
}

/// Whether a pattern matches a name: with `*` or `?` it must match the whole name, without them it
/// must occur in it.
pub fn name_matches(pattern: &str, name: &str) -> bool {
    if !pattern.contains(['*', '?']) {
        return name.contains(pattern);
    }
    glob(pattern.as_bytes(), name.as_bytes())
}

/// Shell-like match of the whole text: `*` any run, `?` any byte. Linear-time backtracking to the
/// last star only.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(c) if *c == b'?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((sp, st)) => {
                    p = sp + 1;
                    t = st + 1;
                    star = Some((sp, st + 1));
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_rule_by_name_beats_the_rule_for_any() {
        let rules = Rules::parse("500ms, checkout>250ms, GET /slow/*>2s").expect("valid");
        assert_eq!(rules.limit_ns("GET /"), 500 * MS);
        assert_eq!(rules.limit_ns("POST /checkout"), 250 * MS);
        assert_eq!(rules.limit_ns("GET /slow/report"), 2000 * MS);
        assert_eq!(rules.limit_ns("PUT /slow/report"), 500 * MS);
        assert_eq!(Rules::parse("a>1s").expect("valid").limit_ns("b"), u64::MAX);
    }

    #[test]
    fn a_percentile_rule_has_a_limit_and_a_crowd_of_its_own() {
        let rules =
            Rules::parse("p99.9(checkout)>50ms/30s, 1s, p95>200ms/1m, pay>3s").expect("valid");
        assert_eq!(rules.limit_ns("GET /checkout"), 50 * MS);
        assert_eq!(rules.crowd_of("GET /checkout"), Some(0));
        // Of the two rules for any request the strictest holds.
        assert_eq!((rules.limit_ns("GET /"), rules.crowd_of("GET /")), (200 * MS, Some(1)));
        assert_eq!((rules.limit_ns("pay"), rules.crowd_of("pay")), (3000 * MS, None));
        let mut crowds = rules.crowds();
        assert_eq!(crowds.len(), 2);
        crowds[0].note(1, 0, 0);
        crowds[0].note(2, 1000, 2);
        assert_eq!(crowds[0].is_over(), Some((1000, 2)), "2 of 1000 are more than 0.1 %");
    }

    #[test]
    fn rules_are_scaled_and_written_as_they_are_read() {
        let text = "p99.9(checkout)>50ms/30s, 1s, p95>200ms/60s, GET /a/*>1.5s";
        let rules = Rules::parse(text).expect("valid");
        assert_eq!(rules.to_string(), text);
        let half = rules.scaled(0.5).to_string();
        assert_eq!(half, "p99.9(checkout)>25ms/30s, 500ms, p95>100ms/60s, GET /a/*>750ms");
        assert_eq!(Rules::parse(&half).expect("valid"), rules.scaled(0.5));
        assert_eq!(rules.scaled(0.0).limit_ns("x"), 1000);
    }

    #[test]
    fn globs_match_the_whole_name() {
        assert!(glob(b"GET /a/*/c", b"GET /a/b/c") && glob(b"*", b"") && glob(b"a?c", b"abc"));
        assert!(!glob(b"GET /a/*/c", b"GET /a/b/d") && !glob(b"a", b"ab"));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_accepted_forms() {
        for text in [
            "",
            "fast",
            ">5ms",
            "x>",
            "checkout>5",
            "p99(checkout)>50ms",
            "p99(x)>5ms/1ms",
            "p99(x>5ms/1m",
        ] {
            let refused = Rules::parse(text).expect_err(text).to_string();
            assert!(refused.starts_with("slow: found") && refused.contains("checkout>250ms"));
        }
    }
}
