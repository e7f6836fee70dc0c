//! The names of functions, in Python, Rust and C++.

/// Whether a frame is a comprehension or generator expression: reported as the function it is
/// written in.
pub fn is_part_of_a_function(qualified: &str) -> bool {
    matches!(last_part(qualified), "<listcomp>" | "<setcomp>" | "<dictcomp>" | "<genexpr>")
}

/// The function's own name, without its class and enclosing functions.
pub fn last_part(qualified: &str) -> &str {
    match qualified.contains("::") || without_types(qualified).len() < qualified.len() {
        true => without_types(last_native_part(qualified)),
        false => qualified.rsplit('.').next().unwrap_or(qualified),
    }
}

/// `next` of `next<(usize, u64)>`: the types that a generic function was compiled for. Python's
/// `<lambda>` begins with its bracket, and an operator of C++ is named by them.
fn without_types(name: &str) -> &str {
    let named = |front: &&str| {
        let last = front.bytes().next_back();
        last.is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'}')
            && !front.ends_with("operator")
    };
    let front = name.split_once('<').map(|(front, _)| front.trim_end_matches("::"));
    front.filter(|_| name.ends_with('>')).filter(named).unwrap_or(name)
}

/// `run` of `<shop::Cart as shop::Shelf<a::B>>::run`; a closure and the body of an async function
/// have their function's name.
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
    // Types behind `::` (`insert::<u8>`) and parts of a function have no name of their own.
    let named = |at: &usize| !qualified[*at..].starts_with(['{', '<']);
    let Some(part) = begins.iter().rposition(named) else { return qualified };
    let end = begins.get(part + 1).map_or(qualified.len(), |next| next - "::".len());
    &qualified[begins[part]..end]
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
            ("shop::price::{{closure}}", "price"),
            ("shop::price::{async_fn#0}::{closure#1}", "price"),
            ("<shop::Cart as shop::Shelf<a::B>>::run", "run"),
            ("shop::map<fn() -> a::B>::get", "get"),
            ("next<(usize, u64)>", "next"),
            ("next_impl<(usize, u64), false>", "next_impl"),
            ("call_once<core::result::Result<bool, a::B>>", "call_once"),
            ("shop::map::insert<a::B>", "insert"),
            ("shop::map::insert::<a::B>", "insert"),
            ("shop::operator<", "operator<"),
            ("Cart.price.<locals>.<lambda>", "<lambda>"),
            ("<lambda>", "<lambda>"),
            ("(anonymous namespace)::nap", "nap"),
            ("{{closure}}", "{{closure}}"),
        ];
        for (qualified, wanted) in cases {
            assert_eq!(last_part(qualified), wanted);
        }
    }
}
