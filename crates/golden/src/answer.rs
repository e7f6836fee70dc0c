//! What is true about a capture, and whether a verdict says it.
//!
//! The rules are the zoo's (tests/zoo/judging.py). The first finding must have the right cause and,
//! where the answer names them, the right place and culprit. A further accepted cause sees the same
//! defect from another side: its place or culprit must be among those of either.

use toml::{Table, Value};

use crate::verdict::{Found, Spot, Verdict};

/// What is true.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The cause; None: nothing is wrong, no verdict may blame anything.
    pub cause: Option<String>,
    /// Other causes that are right too.
    pub accept: Vec<String>,
    /// Right places; empty: not judged.
    pub places: Vec<Spot>,
    /// Right culprits; empty: not judged.
    pub culprits: Vec<Spot>,
    /// Only switch records show the culprit; without them a verdict without a culprit is right too.
    pub culprit_by_switches: bool,
    /// A second defect that costs less: its finding must come next.
    pub then: Option<(String, Vec<Spot>)>,
    /// So much of the capture is lost that a verdict without a finding is right too.
    pub may_be_silent: bool,
}

impl Answer {
    /// From the table `[answer]` of an entry. Err: what is wrong with it.
    pub fn of(table: &Table) -> Result<Answer, String> {
        let flag = |key: &str| table.get(key).and_then(Value::as_bool).unwrap_or(false);
        let then = table.get("then").and_then(Value::as_table);
        let then = then.map(|then| Ok::<_, String>((text(then, "cause")?, spots(then, "where")?)));
        Ok(Answer {
            cause: Some(text(table, "cause")?).filter(|cause| cause != "none"),
            accept: texts(table, "accept")?,
            places: spots(table, "where")?,
            culprits: spots(table, "culprit")?,
            culprit_by_switches: flag("culprit_by_switches"),
            then: then.transpose()?,
            may_be_silent: flag("may_be_silent"),
        })
    }

    /// What is wrong with a verdict; None: it is right. `switches`: whether switch records were on.
    pub fn wrong(&self, verdict: &Verdict, switches: bool) -> Option<String> {
        let Some(first) = verdict.findings.first() else {
            let silent = self.cause.is_none() || self.may_be_silent;
            return (!silent).then(|| "no finding".to_owned());
        };
        let Some(cause) = &self.cause else {
            return Some(format!("{} is blamed, nothing is wrong", first.cause));
        };
        if first.cause != *cause && !self.accept.contains(&first.cause) {
            return Some(format!("cause {}, right is {cause}", first.cause));
        }
        self.wrong_places(first, first.cause == *cause, switches)
            .or_else(|| self.wrong_second(verdict.findings.get(1)))
    }

    fn wrong_places(&self, first: &Found, own: bool, switches: bool) -> Option<String> {
        let (place, culprit) = (first.place.as_ref(), first.culprit.as_ref());
        if !own {
            let either: Vec<&Spot> = self.places.iter().chain(&self.culprits).collect();
            let fits = |spot: Option<&Spot>| spot.is_some_and(|spot| either.contains(&spot));
            let right = either.is_empty() || fits(place) || fits(culprit);
            return (!right).then(|| format!("place {}, culprit {}", shown(place), shown(culprit)));
        }
        let fits = |spot: Option<&Spot>, among: &[Spot]| {
            among.is_empty() || spot.is_some_and(|spot| among.contains(spot))
        };
        if !fits(place, &self.places) {
            return Some(format!(
                "place {}, right is {}",
                shown(place),
                shown(self.places.first())
            ));
        }
        let unknown = self.culprit_by_switches && !switches && culprit.is_none();
        (!unknown && !fits(culprit, &self.culprits)).then(|| {
            format!("culprit {}, right is {}", shown(culprit), shown(self.culprits.first()))
        })
    }

    fn wrong_second(&self, second: Option<&Found>) -> Option<String> {
        let (cause, places) = self.then.as_ref()?;
        let place = second.and_then(|second| second.place.as_ref());
        let right = second.is_some_and(|second| second.cause == *cause)
            && (places.is_empty() || place.is_some_and(|place| places.contains(place)));
        let found = second.map_or("nothing", |second| second.cause.as_str());
        (!right).then(|| format!("next {found} at {}, right is {cause}", shown(place)))
    }
}

/// `enter() in program.py`.
pub fn shown(spot: Option<&Spot>) -> String {
    spot.map_or("unknown".to_owned(), |spot| format!("{}() in {}", spot.function, spot.file))
}

/// A text that is required.
pub fn text(table: &Table, key: &str) -> Result<String, String> {
    let found = table.get(key).and_then(Value::as_str);
    found.map(str::to_owned).ok_or_else(|| format!("`{key}` is missing; wanted a text"))
}

/// A list of texts; empty where there is none.
pub fn texts(table: &Table, key: &str) -> Result<Vec<String>, String> {
    let Some(value) = table.get(key) else { return Ok(Vec::new()) };
    let list = value.as_array().map(|list| list.iter().map(Value::as_str));
    let list = list.and_then(|texts| texts.map(|t| t.map(str::to_owned)).collect());
    list.ok_or_else(|| format!("`{key}` is {value:?}; wanted a list of texts"))
}

fn spots(table: &Table, key: &str) -> Result<Vec<Spot>, String> {
    let spot = |text: &String| {
        let (function, file) = text
            .split_once(" in ")
            .ok_or_else(|| format!("`{key}` has {text:?}; wanted \"FUNCTION in FILE\""))?;
        Ok(Spot { function: function.to_owned(), file: file.to_owned() })
    };
    texts(table, key)?.iter().map(spot).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot(function: &str) -> Spot {
        Spot { function: function.to_owned(), file: "app.py".to_owned() }
    }

    fn verdict(findings: &[(&str, &str, &str)]) -> Verdict {
        let named = |name: &&str| Some(*name).filter(|name| !name.is_empty()).map(spot);
        let found = |(cause, place, culprit): &(&str, &str, &str)| Found {
            cause: (*cause).to_owned(),
            place: named(place),
            culprit: named(culprit),
            confidence: "likely".to_owned(),
        };
        Verdict { findings: findings.iter().map(found).collect(), ..Verdict::default() }
    }

    fn answer(more: &str) -> Answer {
        let text = format!("cause = \"lock-wait\"\nwhere = [\"enter in app.py\"]\n{more}");
        let table = text.parse::<Table>().unwrap_or_default();
        Answer::of(&table).unwrap_or_default()
    }

    #[test]
    fn cause_place_and_culprit_must_be_right() {
        let plain = answer("culprit = [\"hold in app.py\"]");
        assert_eq!(plain.wrong(&verdict(&[("lock-wait", "enter", "hold")]), true), None);
        for wrong in [
            &[("cpu", "enter", "hold")][..],
            &[("lock-wait", "other", "hold")],
            &[("lock-wait", "enter", "")],
            &[("lock-wait", "enter", "other")],
            &[],
        ] {
            assert!(plain.wrong(&verdict(wrong), true).is_some(), "{wrong:?}");
        }
    }

    #[test]
    fn without_switch_records_the_culprit_may_be_missing() {
        let by = answer("culprit = [\"hold in app.py\"]\nculprit_by_switches = true");
        let nobody = verdict(&[("lock-wait", "enter", "")]);
        assert_eq!(by.wrong(&nobody, false), None);
        assert!(by.wrong(&nobody, true).is_some());
        assert!(by.wrong(&verdict(&[("lock-wait", "enter", "other")]), false).is_some());
    }

    #[test]
    fn an_accepted_cause_may_have_the_other_place() {
        let both = answer("accept = [\"pipe-write\"]\nculprit = [\"hold in app.py\"]");
        assert_eq!(both.wrong(&verdict(&[("pipe-write", "hold", "")]), true), None);
        assert!(both.wrong(&verdict(&[("pipe-write", "other", "")]), true).is_some());
    }

    #[test]
    fn the_lesser_cause_must_come_next() {
        let two = answer("then = { cause = \"cpu\", where = [\"sum in app.py\"] }");
        let first = ("lock-wait", "enter", "");
        assert_eq!(two.wrong(&verdict(&[first, ("cpu", "sum", "")]), true), None);
        assert!(two.wrong(&verdict(&[first]), true).is_some());
        assert!(two.wrong(&verdict(&[first, ("sleep", "sum", "")]), true).is_some());
    }

    #[test]
    fn of_a_healthy_program_nothing_may_be_blamed() {
        let table = "cause = \"none\"".parse::<Table>().unwrap_or_default();
        let healthy = Answer::of(&table).unwrap_or_default();
        assert_eq!(healthy.wrong(&verdict(&[]), true), None);
        assert!(healthy.wrong(&verdict(&[("cpu", "sum", "")]), true).is_some());
        assert!(answer("").wrong(&verdict(&[]), true).is_some());
        assert_eq!(answer("may_be_silent = true").wrong(&verdict(&[]), true), None);
    }
}
