//! SIGUSR2 as a source of captures: taken if the settings ask for it, reported while it is ours.
//!
//! What it promises: a program's own handler is never replaced.

use format::source::SourceState;
use sys::signal::{usr2_handler, Handler};

use crate::recording::Recording;
use crate::triggers::alarms::Alarms;

const HAS_A_HANDLER: &str = "the program has a handler of its own for SIGUSR2, or ignores it";

/// Takes SIGUSR2 if the settings ask for it and it has no other handler.
pub(crate) fn take_signal(recording: &Recording, alarms: &Alarms) {
    if recording.config().signal {
        sys::signal::take_usr2();
        signal_source(recording, alarms);
    }
}

/// Says whether SIGUSR2 is ours; the program may take it at any time.
pub(crate) fn signal_source(recording: &Recording, alarms: &Alarms) {
    if !recording.config().signal {
        return;
    }
    let ours = usr2_handler() == Handler::Ours;
    // Reported when it changes only: the list of sources is locked and searched.
    if alarms.signal_changed(ours) {
        let state = match ours {
            true => SourceState::On,
            false => SourceState::off(HAS_A_HANDLER),
        };
        recording.set_source("signal", state);
    }
}
