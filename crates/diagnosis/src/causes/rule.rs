//! What a cause's file is made from: its rules, and what its sentence says of a finding.

use analysis::frames::Place;
use analysis::resource::Resource;
use analysis::timeline::Segment;

use crate::cause::Cause;
use crate::causes::grounds::Grounds;
use crate::claim::Claim;
use crate::context::Context;
use crate::doing::Doing;
use crate::facts::awaits::Awaited;
use analysis::readable::ms_text;

/// What is said of findings of a cause.
pub struct Row {
    /// One sentence about a finding.
    pub sentence: fn(&Described<'_>) -> String,
    /// One sentence of advice.
    pub advice: fn(&Described<'_>) -> &'static str,
}

/// A rule: one cause's file.
pub struct Rule {
    /// Its stable id.
    pub id: &'static str,
    /// What its claims rest on.
    pub grounds: Grounds,
    /// Claims a segment, or not.
    pub claim: fn(&Context<'_>, &Segment<'_>) -> Option<Claim>,
}

impl Rule {
    /// Its claim on a segment.
    pub(crate) fn claim(&self, cx: &Context<'_>, segment: &Segment<'_>) -> Option<Claim> {
        (self.claim)(cx, segment).map(|claim| claim.by_rule(self.id))
    }
}

/// A rule for time in which a task of an event loop awaits something.
pub(crate) struct AwaitRule {
    pub(crate) id: &'static str,
    pub(crate) grounds: Grounds,
    pub(crate) claim: fn(&Context<'_>, &Awaited<'_>, &Segment<'_>) -> Option<Claim>,
}

/// The claim on the heaviest grounds, of those that `ask` gets from a list of rules. Rules on
/// lighter grounds are not asked: they could not win.
pub(crate) fn heaviest<R, C>(
    cx: &Context<'_>,
    rules: &[R],
    grounds: impl Fn(&R) -> Grounds,
    id: impl Fn(&R) -> &'static str,
    ask: impl Fn(&R) -> Option<C>,
) -> Option<C> {
    Grounds::ALL.iter().rev().find_map(|own| {
        let rules = cx.order.of(rules).filter(|rule| grounds(rule) == *own);
        let claims = rules.filter_map(|rule| Some((id(rule), ask(rule)?)));
        claims.min_by_key(|(id, _)| *id).map(|(_, claim)| claim)
    })
}

/// A group of claims, as the sentence that describes it needs it.
pub struct Described<'a> {
    /// Where.
    pub place: Option<&'a Place>,
    /// Its requests were nowhere, as they had not begun: the place is the culprit's.
    pub is_nowhere: bool,
    /// The task of an event loop that it was in, by the name the program gave it.
    pub task: Option<&'a str>,
    /// The blocker, if another thread.
    pub culprit: Option<&'a Place>,
    /// The program's own functions that called the culprit's, outermost first; the last few.
    pub culprit_path: &'a [String],
    /// The thread that waited for the culprit, and made the request wait itself.
    pub through: Option<&'a Through>,
    /// Name of the culprit's thread.
    pub culprit_thread: Option<&'a str>,
    /// What the culprit itself was doing.
    pub culprit_doing: Option<Doing>,
    /// Different culprit threads.
    pub culprit_threads: usize,
    /// The culprit is a task of the same event loop.
    pub culprit_is_task: bool,
    /// The culprit was read from the lock or interpreter.
    pub culprit_measured: bool,
    /// The blocker was only found to be somewhere during the waits, and hardly at other times.
    pub culprit_by_overlap: bool,
    /// The program's event loops are gevent's.
    pub has_greenlets: bool,
    /// What was waited for.
    pub resource: Option<&'a Resource>,
    /// The call to another service that most of it was in, by its name.
    pub call: Option<&'a str>,
    /// The waits ended by their time limit.
    pub timed_out: bool,
    /// The finding's cause; of an event loop that waits for another thread, that wait's.
    pub waits: Cause,
    /// What one line called again and again.
    pub repeats: Option<&'a Repeats>,
    /// How often a slow request waited so, on average; 0 when there are only estimates.
    pub times: usize,
    /// What the code called between its pauses.
    pub retried: Option<&'a Place>,
    /// Mean time a slow request spent so; of those that had ended when the capture was made, if any
    /// had.
    pub mean_ms: f64,
    /// None had: it may have gone on.
    pub still_going_on: bool,
    /// The kernel's part of the CPU time, where it is known.
    pub kernel_part: Option<f64>,
    /// The part of that in which it got no CPU.
    pub starved_ms: f64,
}

impl Described<'_> {
    /// `1.01 s`; `at least 654 ms` of what had not ended.
    pub fn time(&self) -> String {
        let least = if self.still_going_on { "at least " } else { "" };
        format!("{least}{}", ms_text(self.mean_ms))
    }

    /// How sure the culprit is, in front of it: nothing, `most likely `, `possibly `.
    pub fn sure(&self) -> &'static str {
        match (self.culprit_measured, self.culprit_by_overlap) {
            (true, _) => "",
            (false, true) => "possibly ",
            (false, false) => "most likely ",
        }
    }

    /// What the code called between its pauses, where the sentence names that by its place: it is
    /// in another file than the pauses.
    pub fn named_retried(&self) -> Option<&Place> {
        let waits_in_vain = self.resource == Some(&Resource::TimeLimit);
        let elsewhere = |called: &&Place| self.place.is_none_or(|place| place.file != called.file);
        self.retried.filter(|_| self.waits == Cause::Sleep && !waits_in_vain).filter(elsewhere)
    }

    /// `pool.py:6 query() (called by reports() > month_end())`: the culprit, and on whose behalf,
    /// since the request itself may well call the same function.
    pub fn blamed(&self) -> String {
        let place = at(self.culprit);
        if self.culprit_path.is_empty() {
            return place;
        }
        let calls: Vec<String> = self.culprit_path.iter().map(|name| format!("{name}()")).collect();
        format!("{place} (called by {})", calls.join(" > "))
    }
}

/// The thread that made the request wait because the culprit made that thread wait.
pub struct Through {
    /// Where it was.
    pub place: Place,
    /// What it waited for, in words, up to the blocker.
    pub waited_for: &'static str,
}

/// What was counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Spans of this name.
    Spans(String),
    /// Waits for a peer.
    Waits,
    /// The turns on a CPU between them.
    Slices,
}

/// One line that called something many times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeats {
    /// The line.
    pub place: Place,
    /// The library's function that it called, when a frame shows it.
    pub callee: Option<String>,
    /// How often in a slow request, on average.
    pub times: usize,
    /// The same in a normal request; known of spans only.
    pub normally: Option<usize>,
    /// What was counted.
    pub counted: Counted,
}

impl Repeats {
    /// `212 calls of execute(), one after the other`, for the end of a sentence.
    pub fn text(&self) -> String {
        let of = self.callee.as_ref().map_or_else(String::new, |f| format!(" of {f}()"));
        match &self.counted {
            Counted::Spans(name) => {
                format!("{} calls{of}, one after the other (spans {name})", self.times)
            }
            Counted::Waits => {
                format!("calls{of} that waited {} times, one after the other", self.times)
            }
            Counted::Slices => {
                format!("calls{of} that waited up to {} times, one after the other", self.times)
            }
        }
    }
}

impl Repeats {
    /// What was counted, in words, and how often.
    pub fn evidence(&self) -> Vec<(String, usize)> {
        let of = self.callee.as_ref().map_or_else(String::new, |f| format!(" of {f}()"));
        let what = match &self.counted {
            Counted::Spans(name) => format!("calls{of} in a slow request, by spans {name}"),
            Counted::Waits => format!("waits for a peer in calls{of} in a slow request"),
            Counted::Slices => {
                format!("turns on a CPU between waits in calls{of} in a slow request")
            }
        };
        let normally =
            self.normally.map(|times| ("the same in a normal request".to_owned(), times));
        std::iter::once((what, self.times)).chain(normally).collect()
    }
}

/// `geocache.py:41 backoff()`, or a word when no frame is known.
pub(crate) fn at(place: Option<&Place>) -> String {
    place.map_or_else(|| "code that was not seen".to_owned(), Place::short)
}

/// ` (tcp 127.0.0.1:5432)`, or nothing.
pub(crate) fn resource_text(d: &Described<'_>) -> String {
    d.resource.map_or_else(String::new, |resource| format!(" ({resource})"))
}

/// `: 212 calls of execute(), one after the other`, or nothing.
pub(crate) fn repeats_text(d: &Described<'_>) -> String {
    d.repeats.map_or_else(String::new, |repeats| format!(": {}", repeats.text()))
}
