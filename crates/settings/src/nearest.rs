//! The setting that a misspelt name was probably meant to be.

use crate::knobs::KNOBS;
use crate::list::Knob;

/// The setting whose name is nearest, if one is near.
pub(crate) fn nearest(name: &str) -> Option<&'static str> {
    let near = |knob: &&Knob| (distance(name, knob.name), knob.name);
    let (far, found) = KNOBS.iter().map(|k| near(&k)).min()?;
    (far <= 1 + name.len() / 5).then_some(found)
}

/// Edit distance: letters to insert, delete or change to turn one text into the other.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, of_a) in a.bytes().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, of_b) in b.bytes().enumerate() {
            let change = corner + usize::from(of_a != of_b);
            corner = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(corner + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_names_find_the_one_that_was_meant() {
        assert_eq!(nearest("slwo"), None, "two letters of four are another word");
        assert_eq!(nearest("slo"), Some("slow"));
        assert_eq!(nearest("memmory"), Some("memory"));
        assert_eq!(nearest("open_metrics"), Some("openmetrics"));
        assert_eq!(nearest("truth"), None);
    }
}
