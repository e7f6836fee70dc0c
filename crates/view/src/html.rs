//! The page around the data.

use miniz_oxide::deflate::compress_to_vec_zlib;

/// The page that `viewer/` builds. Three marks in it are replaced.
const PAGE: &str = include_str!("../../../viewer/dist/page.html");
const TITLE: &str = "<!--dashcam:title-->";
const VERDICT: &str = "<!--dashcam:verdict-->";
const DATA: &str = "<!--dashcam:data-->";

/// JSON deflated and in base64.
pub fn pack(json: &str) -> String {
    base64(&compress_to_vec_zlib(json.as_bytes(), 6))
}

/// The page: title and verdict as text, the data where the script reads it.
pub fn fill(title: &str, verdict: &str, packed: &str) -> String {
    // Cut at the marks of the page itself, once: inserted text is never searched for marks.
    let (title, verdict) = (escape(title), escape(verdict));
    let mut out = String::with_capacity(PAGE.len() + packed.len() + verdict.len());
    let mut rest = PAGE;
    for (mark, text) in [(TITLE, title.as_str()), (VERDICT, &verdict), (DATA, packed)] {
        let (before, after) = rest.split_once(mark).unwrap_or((rest, ""));
        out.push_str(before);
        out.push_str(text);
        rest = after;
    }
    out + rest
}

/// Text, escaped for a place between tags.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(c),
        }
    }
    out
}

/// RFC 4648, with padding.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for part in bytes.chunks(3) {
        let byte = |i: usize| part.get(i).copied().map_or(0, u32::from);
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4u32 {
            let letter = LETTERS[(word >> (18 - 6 * i) & 63) as usize];
            out.push(if i as usize <= part.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        let pairs =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (plain, coded) in pairs {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }

    #[test]
    fn the_page_has_each_mark_once_and_in_order() {
        let at: Vec<usize> =
            [TITLE, VERDICT, DATA].iter().map(|m| PAGE.find(m).unwrap_or(0)).collect();
        assert!(0 < at[0] && at[0] < at[1] && at[1] < at[2], "{at:?}");
        assert!([TITLE, VERDICT, DATA].iter().all(|m| PAGE.matches(m).count() == 1));
    }

    #[test]
    fn inserted_text_is_escaped_and_never_taken_for_a_mark() {
        let page = fill("<!--dashcam:data-->", "</pre><script>alert(1)</script>", "QUJD");
        assert_eq!(page.matches("QUJD").count(), 1);
        assert!(!page.contains("</pre><script>alert"));
        assert!(page.contains("&lt;/pre&gt;&lt;script&gt;alert(1)"));
    }
}
