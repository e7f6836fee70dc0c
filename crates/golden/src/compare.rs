//! Two verdicts side by side, for a person.

/// Columns of each side.
const SIDE: usize = 74;

/// The old verdict on the left, the new one on the right; `|` marks lines that differ.
pub fn side_by_side(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let mut out = format!("    {:SIDE$}     NEW\n", "OLD");
    for (left, right) in aligned(&old, &new) {
        let mark = if left == right { ' ' } else { '|' };
        let (left, right) = (wrapped(left.unwrap_or("")), wrapped(right.unwrap_or("")));
        for at in 0..left.len().max(right.len()) {
            let side = |lines: &[String]| lines.get(at).cloned().unwrap_or_default();
            let line = format!("  {mark} {:SIDE$}  {mark}  {}", side(&left), side(&right));
            out.push_str(line.trim_end());
            out.push('\n');
        }
    }
    out
}

/// Lines in pairs: equal lines beside each other (a longest common subsequence), the lines between
/// them in order.
fn aligned<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(Option<&'a str>, Option<&'a str>)> {
    let mut common = vec![vec![0usize; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] = match old[i] == new[j] {
                true => common[i + 1][j + 1] + 1,
                false => common[i + 1][j].max(common[i][j + 1]),
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut out = Vec::new();
    let (mut only_old, mut only_new): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    let flush = |out: &mut Vec<_>, left: &mut Vec<&'a str>, right: &mut Vec<&'a str>| {
        for at in 0..left.len().max(right.len()) {
            out.push((left.get(at).copied(), right.get(at).copied()));
        }
        left.clear();
        right.clear();
    };
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            flush(&mut out, &mut only_old, &mut only_new);
            out.push((Some(old[i]), Some(new[j])));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || i < old.len() && common[i + 1][j] >= common[i][j + 1] {
            only_old.push(old[i]);
            i += 1;
        } else {
            only_new.push(new[j]);
            j += 1;
        }
    }
    flush(&mut out, &mut only_old, &mut only_new);
    out
}

/// A line in parts of `SIDE` columns, broken between words where possible.
fn wrapped(line: &str) -> Vec<String> {
    let indent = line.len() - line.trim_start().len();
    let mut parts = Vec::new();
    let mut part = String::new();
    for word in line.split(' ') {
        let length = part.chars().count() + 1 + word.chars().count();
        if !part.trim().is_empty() && length > SIDE {
            parts.push(std::mem::replace(&mut part, " ".repeat(indent + 2)));
            part.push_str(word);
        } else {
            if !(parts.is_empty() && part.is_empty()) || word.is_empty() {
                part.push(' ');
            }
            part.push_str(word);
        }
    }
    parts.push(part);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lines_are_beside_each_other_and_others_are_marked() {
        let shown = side_by_side("a\nb\nd\n", "a\nc\nc2\nd\ne\n");
        let lines: Vec<Vec<&str>> =
            shown.lines().skip(1).map(|l| l.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["a", "a"]);
        assert_eq!(lines[1], ["|", "b", "|", "c"]);
        assert_eq!(lines[2], ["|", "|", "c2"]);
        assert_eq!(lines[3], ["d", "d"]);
        assert_eq!(lines[4], ["|", "|", "e"]);
    }

    #[test]
    fn long_lines_are_broken_between_words() {
        let line = format!("   {}", "word ".repeat(40));
        let parts = wrapped(&line);
        assert!(parts.len() > 2 && parts.iter().all(|part| part.chars().count() <= SIDE));
        let words = parts.iter().map(|part| part.split_whitespace().count()).sum::<usize>();
        assert_eq!(words, 40);
    }
}
