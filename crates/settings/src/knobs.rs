//! The rows of the list as values.

use crate::kinds::{self, Kind};
use crate::list::{Knob, Listed};

macro_rules! when {
    (Live) => {
        true
    };
    (AtStart) => {
        false
    };
}

macro_rules! knobs {
    ($($name:ident => $field:ident: $kind:ident, $default:literal, $accepts:literal,
       $when:ident, $listed:ident, $sentence:literal;)*) => {
        /// All settings.
        pub const KNOBS: &[Knob] = &[$(Knob {
            name: stringify!($name),
            field: stringify!($field),
            kind: stringify!($kind),
            default: $default,
            accepts: $accepts,
            live: when!($when),
            listed: Listed::$listed,
            sentence: $sentence,
            check: |knob, text| kinds::$kind::read(knob, text).map(drop),
        },)*];
    };
}

settings!(knobs);
