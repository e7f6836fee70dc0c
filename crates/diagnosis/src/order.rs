//! The order in which rules and inferences are asked. It decides nothing.
//!
//! What it promises: a verdict is the same in whatever order the lists are walked, since their
//! answers are compared by evidence. A test walks them in several orders over all golden captures
//! (crates/golden/tests/it/the_order_of_inferences_decides_nothing.rs).

/// An order to walk lists in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// As the lists are written.
    #[default]
    Listed,
    /// From their ends.
    Reversed,
    /// In another one, by this number.
    Shuffled(usize),
}

impl Order {
    /// The items of a list.
    pub(crate) fn of<T>(self, list: &[T]) -> impl Iterator<Item = &T> {
        let len = list.len();
        (0..len).map(move |i| &list[self.index(i, len)])
    }

    /// Which of `len` items comes at `i`.
    fn index(self, i: usize, len: usize) -> usize {
        match self {
            Order::Listed => i,
            Order::Reversed => len - 1 - i,
            // Steps that share no divisor with the length meet each item once.
            Order::Shuffled(seed) => {
                let step = (1 + seed % len..).find(|step| divisor(*step, len) == 1).unwrap_or(1);
                (seed + i * step) % len
            }
        }
    }
}

fn divisor(a: usize, b: usize) -> usize {
    if b == 0 {
        a
    } else {
        divisor(b, a % b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_order_has_each_item_once() {
        for len in 0..30 {
            let list: Vec<usize> = (0..len).collect();
            for order in (0..9).map(Order::Shuffled).chain([Order::Listed, Order::Reversed]) {
                let mut all: Vec<usize> = order.of(&list).copied().collect();
                all.sort_unstable();
                assert_eq!(all, list, "{order:?}");
            }
        }
    }
}
