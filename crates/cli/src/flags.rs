//! The flags for settings, of `run` and `attach`: one for each row of the list in crates/settings,
//! with its sentence, accepted values and default.
//!
//! What it promises: a value is judged as the recorder does, before anything is started. `-h` lists
//! the flags that most people need, `--help` all.

use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};
use settings::{Knob, Listed, KNOBS};

/// Settings given as flags: name, value.
#[derive(Clone, Default)]
pub struct Flags(pub Vec<(String, String)>);

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        command.args(KNOBS.iter().map(flag))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Flags, Error> {
        let given = |knob: &Knob| {
            Some((knob.name.to_owned(), matches.get_one::<String>(knob.name)?.clone()))
        };
        Ok(Flags(KNOBS.iter().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.extend(Flags::from_arg_matches(matches)?.0);
        Ok(())
    }
}

impl Flags {
    /// The value of a setting, if it is given.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(given, _)| given == name).map(|(_, value)| &**value)
    }

    /// Refuses a value that does not fit its setting. Errors: the flag, what was found and what is
    /// wanted; `behind` says what did not happen.
    pub fn check(&self, behind: &str) -> Result<(), String> {
        let judged = |(name, value): &(String, String)| {
            settings::check(name, value)
                .map_err(|wrong| refusal(name, value, &wrong.wanted, behind))
        };
        self.0.iter().try_for_each(judged)
    }
}

/// The line for a value that is refused.
pub fn refusal(name: &str, value: &str, wanted: &str, behind: &str) -> String {
    let flag = name.replace('_', "-");
    format!("--{flag}: found {value:?}, wanted {wanted}; {behind}")
}

/// The names of the settings that may change while a process records, for the help of `set`.
pub fn live() -> String {
    let live: Vec<&str> = KNOBS.iter().filter(|knob| knob.live).map(|knob| knob.name).collect();
    format!("name=value of {}; on or off", live.join(", "))
}

fn flag(knob: &'static Knob) -> Arg {
    let sentence = knob.sentence.trim_end_matches('.');
    let default = match knob.default {
        "" => String::new(),
        default => format!(" [default: {default}]"),
    };
    Arg::new(knob.name)
        .long(knob.flag())
        .value_name(knob.name.to_uppercase())
        .help(format!("{sentence}: {}{default}", knob.accepts))
        .hide_short_help(knob.listed == Listed::Long)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_is_a_flag() {
        let command = Flags::augment_args(Command::new("run"));
        let words = KNOBS.iter().flat_map(|knob| [format!("--{}", knob.flag()), "x".to_owned()]);
        let matches = command.get_matches_from(std::iter::once("run".to_owned()).chain(words));
        let Flags(given) = Flags::from_arg_matches(&matches).expect("parsed");
        let names: Vec<&str> = given.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, KNOBS.iter().map(|knob| knob.name).collect::<Vec<_>>());
    }

    #[test]
    fn a_wrong_value_is_refused_by_the_name_of_its_flag() {
        let flags = Flags(vec![("keep_bytes".to_owned(), "1".to_owned())]);
        let wrong = flags.check("nothing was changed").expect_err("too few");
        let text = "--keep-bytes: found \"1\", wanted 1MiB to 1TiB; nothing was changed";
        assert_eq!(wrong, text);
    }
}
