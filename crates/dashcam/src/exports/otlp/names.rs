//! Texts of name ids, read from the box as they are appended: no lock that the host may hold.

use ring::Region;

/// The names met so far.
#[derive(Default)]
pub(super) struct Names {
    texts: Vec<Box<str>>,
    bytes: usize,
}

impl Names {
    /// Reads what is new. Cost: what is new.
    pub(super) fn refresh(&mut self, region: &Region) {
        let (words, used) = region.copy_names(self.bytes);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut rest = &bytes[..];
        while let Some((head, tail)) = rest.split_first_chunk::<4>() {
            let length = u32::from_le_bytes(*head) as usize;
            let Some(text) = tail.get(..length) else { break };
            self.texts.push(String::from_utf8_lossy(text).into());
            let whole = (4 + length).next_multiple_of(8);
            rest = rest.get(whole..).unwrap_or_default();
        }
        self.bytes = used;
    }

    /// Of an id; "?" of one that is not there.
    pub(super) fn get(&self, id: u32) -> &str {
        self.texts.get(id as usize).map_or("?", |text| text)
    }
}
