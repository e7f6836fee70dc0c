//! The text of `slow=` as limits by request name.

use crate::units::{duration_ns, Wrong};

/// Limits in the order given. `500ms` holds for any request; `checkout>250ms` for names that
/// contain the word; `GET /api/*>1s` for names that match the glob as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    /// None: any request.
    name: Option<String>,
    limit_ns: u64,
}

impl Rules {
    /// Reads rules separated by commas. Errors name the rule that makes no sense.
    pub fn parse(text: &str) -> Result<Rules, Wrong> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let rules: Vec<Rule> = parts.map(parse_rule).collect::<Result<_, _>>()?;
        if rules.is_empty() {
            return Err(refuse(text));
        }
        Ok(Rules { rules })
    }

    /// How long a request of this name may take, ns; `u64::MAX` when no rule speaks of it. A rule
    /// with a name beats the rule for any; of several, the strictest holds.
    pub fn limit_ns(&self, name: &str) -> u64 {
        let strictest = |named: bool| {
            let fits = |rule: &&Rule| match &rule.name {
                None => !named,
                Some(pattern) => named && name_matches(pattern, name),
            };
            self.rules.iter().filter(fits).map(|rule| rule.limit_ns).min()
        };
        strictest(true).or_else(|| strictest(false)).unwrap_or(u64::MAX)
    }
}

fn parse_rule(text: &str) -> Result<Rule, Wrong> {
    if text.starts_with('p') && text.contains('(') {
        return Err(Wrong {
            what: "slow".to_owned(),
            found: text.to_owned(),
            wanted: "a limit by name, like checkout>250ms: percentile rules are not supported yet"
                .to_owned(),
        });
    }
    match text.rsplit_once('>') {
        None => Ok(Rule { name: None, limit_ns: limit(text, text)? }),
        Some((name, duration)) if !name.trim().is_empty() => {
            Ok(Rule { name: Some(name.trim().to_owned()), limit_ns: limit(duration, text)? })
        }
        Some(_) => Err(refuse(text)),
    }
}

fn limit(duration: &str, rule: &str) -> Result<u64, Wrong> {
    duration_ns("slow", duration).map_err(|_| refuse(rule))
}

fn refuse(found: &str) -> Wrong {
    Wrong {
        what: "slow".to_owned(),
        found: found.to_owned(),
        wanted: "a limit like 500ms, or one by name like checkout>250ms, several with commas"
            .to_owned(),
    }
}

/// Whether a name is meant: a pattern with `*` or `?` must match it as a whole; one without must
/// occur in it.
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
    fn globs_match_the_whole_name() {
        assert!(glob(b"GET /a/*/c", b"GET /a/b/c") && glob(b"*", b"") && glob(b"a?c", b"abc"));
        assert!(!glob(b"GET /a/*/c", b"GET /a/b/d") && !glob(b"a", b"ab"));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_accepted_forms() {
        for text in ["", "fast", ">5ms", "x>", "checkout>5", "p99(checkout)>50ms/30s"] {
            let refused = Rules::parse(text).expect_err(text).to_string();
            assert!(refused.starts_with("slow: found") && refused.contains("checkout>250ms"));
        }
    }
}
