//! The verdict on one capture as a line of fields: what `dashcam judge` prints and the service that
//! made the capture reads.
//!
//! How it works: each field is declared once, in the order of the line; its name is also that in
//! the hook's environment and in JSON. Fields are separated by tabs.
//!
//! What it promises: `parse` takes back what `to_line` gave; a line of another form is none. What
//! is missing on purpose: bounds and control characters, which differ between the two sides.

macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Fields are empty where nothing is known, or there is none.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Judged {
            $($(#[$doc])* pub $name: String,)*
        }

        impl Judged {
            /// The names of the fields, in order.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

            /// Name and text of each field, in order.
            pub fn fields(&self) -> impl Iterator<Item = (&'static str, &str)> {
                [$((stringify!($name), self.$name.as_str())),*].into_iter()
            }

            /// With the text that `text` gives for each field's name, in order.
            pub fn with(mut text: impl FnMut(&'static str) -> String) -> Judged {
                Judged { $($name: text(stringify!($name)),)* }
            }
        }
    };
}

fields! {
    /// Empty: nothing to blame.
    cause,
    /// Where the slow requests were.
    place,
    /// Where the holder, or what else caused it, was.
    holder,
    /// Part of the slow requests' excess, percent.
    share,
    /// `confirmed`, `likely`, `possible`.
    confidence,
    /// The same for captures of the same cause and place.
    fingerprint,
    /// `new`, or `before`: a capture of this service had the same fingerprint.
    seen,
    /// All of it in one line.
    line,
}

impl Judged {
    /// The fields with tabs between; none of them may have one.
    pub fn to_line(&self) -> String {
        self.fields().map(|(_, text)| text).collect::<Vec<&str>>().join("\t")
    }

    /// The fields of a line. None: it has another number of them.
    pub fn parse(line: &str) -> Option<Judged> {
        let texts: Vec<&str> = line.trim_end_matches('\n').split('\t').collect();
        let mut rest = texts.iter();
        let next = |_| rest.next().map_or_else(String::new, |text| (*text).to_owned());
        (texts.len() == Judged::NAMES.len()).then(|| Judged::with(next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_taken_back_and_one_of_another_form_is_none() {
        let judged = Judged::with(|name| format!("its {name}"));
        assert!(judged.to_line().starts_with("its cause\tits place\t"), "{}", judged.to_line());
        assert_eq!(Judged::parse(&format!("{}\n", judged.to_line())), Some(judged.clone()));
        assert_eq!(Judged::parse(&format!("{}\tone more", judged.to_line())), None);
        assert_eq!(Judged::parse(""), None);
        let empty = Judged::default();
        assert_eq!(Judged::parse(&empty.to_line()), Some(empty));
    }
}
