//! The names of functions, in Python, Rust and C++.

/// Whether a frame is a comprehension or generator expression: reported as the function it is
/// written in.
pub fn is_part_of_a_function(qualified: &str) -> bool {
    matches!(last_part(qualified), "<listcomp>" | "<setcomp>" | "<dictcomp>" | "<genexpr>")
}

/// The function's own name, without its class and enclosing functions.
pub fn last_part(qualified: &str) -> &str {
    match qualified.contains("::") {
        true => last_native_part(qualified),
        false => qualified.rsplit('.').next().unwrap_or(qualified),
    }
}

/// `run` of `<shop::Cart as shop::Shelf<a::B>>::run`; a closure keeps its function's name.
fn last_native_part(qualified: &str) -> &str {
    let (mut depth, mut begins) = (0usize, vec![0]);
    let bytes = qualified.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'<' | b'(' | b'[' => depth += 1,
            b'>' if at > 0 && bytes[at - 1] == b'-' => {}
            b'>' | b')' | b']' => depth = depth.saturating_sub(1),
            b':' if depth == 0 && at > 0 && bytes[at - 1] == b':' => begins.push(at + 1),
            _ => {}
        }
    }
    let named = begins.iter().rev().find(|at| !qualified[**at..].starts_with('{'));
    &qualified[named.copied().unwrap_or(0)..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_functions_own_name_is_found_in_every_language() {
        let cases = [
            ("Cart.price.<locals>.lookup", "lookup"),
            ("nap", "nap"),
            ("shop::cart::price", "price"),
            ("shop::price::{{closure}}", "price::{{closure}}"),
            ("<shop::Cart as shop::Shelf<a::B>>::run", "run"),
            ("shop::map<fn() -> a::B>::get", "get"),
            ("(anonymous namespace)::nap", "nap"),
            ("{{closure}}", "{{closure}}"),
        ];
        for (qualified, wanted) in cases {
            assert_eq!(last_part(qualified), wanted);
        }
    }
}
