//! Refuses wrong values and names, with what was found and what is wanted.

use trigger::Wrong;

use crate::knobs::KNOBS;
use crate::list::Knob;
use crate::nearest::nearest;

/// Refuses a value that does not fit its setting, and a name that no setting has.
pub fn check(name: &str, text: &str) -> Result<(), Wrong> {
    let knob = named(name).ok_or_else(|| unknown(name, text))?;
    (knob.check)(knob, text)
}

/// As `check`, for all of them.
pub fn check_all(given: &[(String, String)]) -> Result<(), Wrong> {
    given.iter().try_for_each(|(name, text)| check(name, text))
}

/// The setting of that name.
pub(crate) fn named(name: &str) -> Option<&'static Knob> {
    KNOBS.iter().find(|knob| knob.name == name)
}

pub(crate) fn unknown(name: &str, text: &str) -> Wrong {
    let known: Vec<&str> = KNOBS.iter().map(|knob| knob.name).collect();
    let meant = nearest(name).map(|near| format!("; is {near} meant?")).unwrap_or_default();
    let wanted = format!("one of the settings {}{meant}", known.join(", "));
    Wrong { what: name.to_owned(), found: text.to_owned(), wanted }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_accepted() {
        for knob in KNOBS {
            assert_eq!(check(knob.name, knob.default), Ok(()));
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_names_and_the_nearest_one() {
        let wrong = check("slw", "2s").expect_err("no setting").to_string();
        assert!(wrong.starts_with("slw: found \"2s\", wanted one of the settings enabled, service"));
        assert!(wrong.ends_with("otel; is slow meant?"), "{wrong}");
        assert!(check("colour", "red").expect_err("no setting").to_string().ends_with("otel"));
    }

    /// The kinds whose values have limits.
    const BOUNDED: [&str; 6] = ["Size", "Pages", "Time", "TimeOrNone", "Count", "Number"];

    #[test]
    fn both_limits_are_accepted_and_what_is_beyond_is_not() {
        let beyond = [
            ("memory", "1023KiB", "5GiB"),
            ("window", "999ms", "25h"),
            ("repeat_after", "-1s", "169h"),
            ("keep", "0", "100001"),
            ("budget_percent", "0.009", "100.5"),
            ("rate_hz", "0.5", "1001"),
            ("otlp_share", "-1", "101%"),
        ];
        for knob in KNOBS.iter().filter(|knob| BOUNDED.contains(&knob.kind)) {
            let (low, high) = knob.accepts.split_once(" to ").expect(knob.name);
            assert_eq!([check(knob.name, low), check(knob.name, high)], [Ok(()), Ok(())]);
        }
        for (name, low, high) in beyond {
            assert!(check(name, low).is_err() && check(name, high).is_err(), "{name}");
        }
    }
}
