//! Whether the sentences of a verdict agree with its data and with each other.
//!
//! How it works: a sentence is taken apart into what can be checked: lengths of time, percentages,
//! places (`file.py:12 f()`), names of threads, and a few phrases that claim to know something or
//! to know nothing. Each is compared with the finding's fields and with what the capture holds.
//!
//! What it promises: a message for each word that has no ground; an empty list says that none was
//! found, not that a sentence is true. What is missing on purpose: grammar, and the advice.

use std::collections::BTreeSet;

use capture::read::Capture;
use diagnosis::{Cause, Confidence, Diagnosis, Finding};

/// A length of time in a sentence is rounded to three digits.
const ROUNDING: f64 = 0.006;
/// Shares are rounded to one percent each.
const SHARES_MOST: f64 = 1.005;
/// Phrases that say that the one to blame is not known.
const NOT_KNOWN: &[&str] = &["is not known", "nobody emptied", "was not recorded"];
/// Phrases that say that a thread of the program is to blame.
const KNOWN: &[&str] = &["held by", "because", "were busy in", "taken up by", "made by"];
/// Words of an inference, not of a fact.
const GUESSED: &[&str] = &["most likely", "probably", "perhaps"];

/// What is wrong with the words of a verdict, a line each.
pub fn contradictions(verdict: &Diagnosis<'_>) -> Vec<String> {
    let functions = functions(verdict.capture);
    let mut wrong = of_verdict(verdict);
    for finding in &verdict.findings {
        let mut found = of_counts(verdict, finding);
        found.extend(of_times(verdict, finding));
        found.extend(of_places(finding, &functions));
        found.extend(of_threads(verdict.capture, finding));
        found.extend(of_knowledge(finding));
        wrong.extend(found.into_iter().map(|what| format!("{what}: {}", finding.summary)));
    }
    wrong
}

fn of_verdict(verdict: &Diagnosis<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    let named = verdict.findings.iter().filter(|f| f.cause != Cause::Unknown);
    let sum: f64 = named.map(|f| f.share).sum();
    if sum + verdict.unexplained_share.max(0.0) > SHARES_MOST {
        wrong.push(format!("shares sum to {sum:.3} and {:.3}", verdict.unexplained_share));
    }
    if verdict.findings.windows(2).any(|two| two[0].share < two[1].share) {
        wrong.push("shares are not in order".to_owned());
    }
    if verdict.slow > verdict.total {
        wrong.push(format!("{} of {} requests are slow", verdict.slow, verdict.total));
    }
    if verdict.slow > 0 && verdict.typical_ns.is_some_and(|typical| typical > verdict.worst_ns) {
        wrong.push("the typical request took longer than the worst".to_owned());
    }
    wrong
}

fn of_counts(verdict: &Diagnosis<'_>, finding: &Finding) -> Vec<String> {
    let mut wrong = Vec::new();
    let normal = verdict.total - verdict.slow.min(verdict.total);
    if finding.slow_requests == 0 || finding.slow_requests > verdict.slow {
        wrong.push(format!("{} of {} slow requests", finding.slow_requests, verdict.slow));
    }
    if finding.normal_requests > normal {
        wrong.push(format!("{} of {normal} normal requests", finding.normal_requests));
    }
    if finding.seen_ns.windows(2).any(|two| two[0] > two[1]) {
        wrong.push("times are not in order".to_owned());
    }
    wrong
}

/// Each length of time is at most that of the worst request; one that is part of another is at most
/// that long.
fn of_times(verdict: &Diagnosis<'_>, finding: &Finding) -> Vec<String> {
    let mut wrong = Vec::new();
    let most = verdict.worst_ns as f64 / 1e6;
    let times = times_ms(&finding.summary);
    for (ms, text) in &times {
        if *ms > most * (1.0 + ROUNDING) + 0.1 {
            wrong.push(format!("{text} is longer than the worst request, {most:.1} ms"));
        }
    }
    if let Some(part) = part_of_that(&finding.summary) {
        let before = times.iter().take_while(|(ms, _)| *ms != part).last();
        if let Some((whole, _)) = before.filter(|(whole, _)| part > whole * (1.0 + ROUNDING)) {
            wrong.push(format!("{part} ms are part of {whole} ms"));
        }
    }
    for percent in percents(&finding.summary).filter(|percent| *percent > 100.0) {
        wrong.push(format!("{percent} %"));
    }
    wrong
}

/// The time before "of that".
fn part_of_that(sentence: &str) -> Option<f64> {
    let end = sentence.find(" of that ")?;
    times_ms(&sentence[..end]).last().map(|(ms, _)| *ms)
}

/// Every function that is named was sampled, and the finding's place and blocker are named.
fn of_places(finding: &Finding, functions: &BTreeSet<String>) -> Vec<String> {
    let mut wrong = Vec::new();
    for place in places(&finding.summary) {
        if !functions.contains(place.function) {
            wrong.push(format!("{} was never sampled", place.function));
        }
        if place.function == "?" || place.file == "?" {
            wrong.push("a place without a name".to_owned());
        }
    }
    if let Some(place) = &finding.culprit {
        if !finding.summary.contains(&format!("{}()", place.function)) {
            wrong.push(format!("the culprit {} is not named", place.short()));
        }
    }
    let named = places(&finding.summary);
    if named.len() > 1 && finding.summary.contains("ran for") && named[0] == named[1] {
        wrong.push("what collects waits for itself".to_owned());
    }
    wrong
}

/// Every thread that is named is in the capture.
fn of_threads(capture: &Capture, finding: &Finding) -> Vec<String> {
    let known = |name: &str| {
        capture.threads.iter().any(|thread| thread.name == name)
            || name.parse().is_ok_and(|tid: u32| capture.threads.iter().any(|t| t.tid == tid))
    };
    let mut wrong = Vec::new();
    for (at, phrase) in finding.summary.match_indices(" in thread ") {
        let rest = &finding.summary[at + phrase.len()..];
        // A name may hold a comma or a bracket; the longest that is known counts.
        let ends = rest.char_indices().filter(|(_, c)| ",;. ".contains(*c)).map(|(i, _)| i);
        if !ends.chain([rest.len()]).any(|end| known(rest[..end].trim())) {
            wrong.push(format!("no thread is named as in {:?}", &phrase[1..]));
        }
    }
    wrong
}

/// What is claimed to be known is in the fields, and what is not known is not.
fn of_knowledge(finding: &Finding) -> Vec<String> {
    let mut wrong = Vec::new();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| finding.summary.contains(phrase));
    if says(NOT_KNOWN) && finding.culprit.is_some() {
        wrong.push("not known, and named".to_owned());
    }
    if says(KNOWN) && finding.culprit.is_none() && !finding.summary.contains("process ") {
        wrong.push("named, and not in the data".to_owned());
    }
    if says(GUESSED) && finding.confidence == Confidence::Confirmed {
        wrong.push("a guess that is confirmed".to_owned());
    }
    if finding.confidence == Confidence::Confirmed && !finding.missing.is_empty() {
        wrong.push(format!("confirmed, and not certain: {}", finding.missing.join("; ")));
    }
    if finding.confidence != Confidence::Confirmed && finding.missing.is_empty() {
        wrong.push("not confirmed, and nothing is missing".to_owned());
    }
    let nothing = finding.summary.contains("nothing was seen");
    if nothing && (!finding.passed_in.is_empty() || finding.place.is_some()) {
        wrong.push("nothing was seen, and this was".to_owned());
    }
    if finding.cause == Cause::Unknown && finding.confidence == Confidence::Confirmed {
        wrong.push("a confirmed unknown".to_owned());
    }
    wrong
}

/// A place in a sentence.
#[derive(PartialEq)]
struct Named<'a> {
    file: &'a str,
    function: &'a str,
}

/// `file.py:12 f()`: each place of a sentence.
fn places(sentence: &str) -> Vec<Named<'_>> {
    let words: Vec<&str> = sentence.split([' ', '(', ',']).collect();
    let mut found = Vec::new();
    for two in words.windows(2) {
        let Some((file, line)) = two[0].rsplit_once(':') else { continue };
        if !line.is_empty() && line.bytes().all(|b| b.is_ascii_digit()) && !file.is_empty() {
            found.push(Named { file, function: two[1] });
        }
    }
    // A peer's address is no place.
    let is_called = |name: &str| !name.is_empty() && sentence.contains(&format!("{name}()"));
    found.retain(|named| is_called(named.function));
    found
}

/// Lengths of time, ms, as in `1.01 s`, `1,204 s`, `654 ms`, `3.1 µs`.
fn times_ms(sentence: &str) -> Vec<(f64, String)> {
    let words: Vec<&str> = sentence.split(' ').collect();
    let mut found = Vec::new();
    for two in words.windows(2) {
        let unit = two[1].trim_end_matches([',', ';', '.', ')', ':']);
        let factor = match unit {
            "s" => 1e3,
            "ms" => 1.0,
            "µs" => 1e-3,
            _ => continue,
        };
        if let Ok(value) = two[0].trim_start_matches('(').replace(',', "").parse::<f64>() {
            found.push((value * factor, format!("{} {unit}", two[0])));
        }
    }
    found
}

fn percents(sentence: &str) -> impl Iterator<Item = f64> + '_ {
    let words: Vec<&str> = sentence.split(' ').collect();
    let of_pair = |two: &[&str]| {
        two[1].starts_with('%').then(|| two[0].trim_start_matches('(').parse().ok()).flatten()
    };
    words.windows(2).filter_map(of_pair).collect::<Vec<f64>>().into_iter()
}

/// Every function that the capture names, without its class.
fn functions(capture: &Capture) -> BTreeSet<String> {
    let last = |name: &str| match name.rfind('.') {
        // `<module>`, `<lambda>` and closures of Rust hold no class before a bracket.
        Some(at) if !name[at..].contains(['>', '}']) => name[at + 1..].to_owned(),
        _ => name.rsplit(['.', ':']).next().unwrap_or(name).to_owned(),
    };
    let names = capture.codes.iter().map(|code| capture.name(code.function));
    // `add::{async_fn#0}` is `add` in a verdict.
    let outer = |name: &str| last(name.split_once("::{").map_or(name, |(outer, _)| outer));
    names.flat_map(|name| [last(name), outer(name)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_is_taken_apart() {
        let sentence =
            "stock.py:41 load() waited 1.01 s for tcp 127.0.0.1:4041 (90 % in 1,204 ms).";
        let times: Vec<f64> = times_ms(sentence).into_iter().map(|(ms, _)| ms).collect();
        assert_eq!(times, [1010.0, 1204.0]);
        assert_eq!(percents(sentence).collect::<Vec<_>>(), [90.0]);
        let places = places(sentence);
        assert_eq!(places.len(), 1);
        assert_eq!((places[0].file, places[0].function), ("stock.py", "load"));
    }

    #[test]
    fn a_part_is_found_by_its_phrase() {
        let sentence =
            "f() computed for 432 ms, which took 3.4 s: for 3.01 s of that it got no CPU";
        assert_eq!(part_of_that(sentence), Some(3010.0));
        assert_eq!(part_of_that("f() computed for 432 ms"), None);
    }
}
