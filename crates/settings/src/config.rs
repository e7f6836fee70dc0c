//! The effective settings, a typed field for each row of the list.

use format::json::Object;
use trigger::Wrong;

use crate::check::{named, unknown};
use crate::kinds::{self, Kind};

macro_rules! declared {
    ($($name:ident => $field:ident: $kind:ident, $default:literal, $accepts:literal,
       $when:ident, $listed:ident, $sentence:literal;)*) => {
        /// Effective settings.
        #[derive(Clone, Debug, Default)]
        pub struct Config {
            $(
                #[doc = $sentence]
                pub $field: <kinds::$kind as Kind>::Value,
            )*
        }

        impl Config {
            /// Sets one by its name. Errors: a wrong value, or no setting's name; nothing has
            /// changed then.
            pub fn set(&mut self, name: &str, text: &str) -> Result<(), Wrong> {
                let knob = named(name).ok_or_else(|| unknown(name, text))?;
                match name {
                    $(stringify!($name) => self.$field = kinds::$kind::read(knob, text)?,)*
                    _ => return Err(unknown(name, text)),
                }
                Ok(())
            }

            /// As JSON, for `status` and captures. Without the service and the labels, which are
            /// beside the settings there.
            pub fn json(&self) -> String {
                let object = Object::new();
                $(let object = kinds::$kind::show(object, stringify!($field), &self.$field);)*
                object.finish()
            }
        }
    };
}

settings!(declared);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_in_the_units_of_their_fields() {
        let mut config = Config::default();
        for (name, text) in [("memory", "1025KiB"), ("rate_hz", "200"), ("otlp_share", "2%")] {
            config.set(name, text).expect(name);
        }
        assert_eq!((config.memory_bytes, config.period_ns), (1 << 20, 5_000_000));
        assert_eq!(config.otlp_share, 2.0);
    }
}
