//! Copies of a thread's data-stack chunks, by guarded reads.
//!
//! How it works: the newest chunk is copied no further than a little above its top, older ones when
//! a walk first enters them. A head that makes no sense (a size smaller than what is used, a chunk
//! that comes again) means that the memory changed while it was read.
//!
//! What it promises: never a fault; at most `ROOM` bytes. Missing on purpose: what the frames in
//! them say (`walker`, `frame`).

use std::io;
use std::ops::Range;

use sys::mem::{Buffer, Reader};

use crate::python_stacks::frames::frame::{Chunk, CHUNK_HEAD};
use crate::python_stacks::layout::words::word_at;
use crate::python_stacks::types::Torn;

/// Chunks come from the arena allocator in this size, or larger for one huge frame.
pub(crate) const USUAL_CHUNK: usize = 16 * 1024;
/// The newest chunk is copied this far beyond its top.
const MARGIN: usize = 2048;
/// The most chunk bytes copied for one stack; a deeper stack is cut and marked as cut.
const MAX_COPIED: usize = 4 << 20;
/// What the buffer has room for: all that was copied before the limit was seen, and one chunk more.
pub(crate) const ROOM: usize = 2 * MAX_COPIED + (64 << 10);

/// What was copied, one chunk behind the other.
pub(crate) struct Copies {
    bytes: Buffer,
    used: usize,
    chunks: Vec<Chunk>,
}

impl Copies {
    pub fn new() -> io::Result<Copies> {
        Ok(Copies { bytes: Buffer::new(ROOM)?, used: 0, chunks: Vec::new() })
    }

    pub fn clear(&mut self) {
        self.used = 0;
        self.chunks.clear();
    }

    /// All bytes, also those that no copy uses.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    /// The first bytes, for a copy of so many that is made elsewhere.
    pub fn room_for(&mut self, length: usize) -> Option<&mut [u8]> {
        self.used = length;
        self.bytes.get_mut(..length)
    }

    /// That copy has these chunks.
    pub fn are_of(&mut self, chunks: &[Chunk]) {
        self.chunks.extend_from_slice(chunks);
    }

    /// More was copied than a stack may have.
    pub fn are_too_many(&self) -> bool {
        self.used > MAX_COPIED
    }

    /// The words at `address`, from the copies when they hold them, else by a guarded read.
    pub fn words(&self, mem: &Reader, address: usize, count: usize) -> Option<Vec<usize>> {
        let length = count * 8;
        let held = self.chunks.iter().find_map(|chunk| {
            let start = address.checked_sub(chunk.base)?;
            self.bytes[chunk.copied.clone()].get(start..start.checked_add(length)?)
        });
        let mut read = Vec::new();
        let bytes = match held {
            Some(bytes) => bytes,
            None => {
                read.resize(length, 0);
                mem.read(address, &mut read).ok()?;
                &read
            }
        };
        Some((0..count).map(|index| word_at(bytes, index * 8)).collect())
    }

    /// Where in the copies a frame lies, copying the next older chunk if it must be there.
    pub fn find(
        &mut self,
        mem: &Reader,
        address: usize,
        length: usize,
    ) -> Result<Option<Range<usize>>, Torn> {
        let Some(chunk) = self.chunks.last() else {
            return Ok(None);
        };
        let within = |chunk: &Chunk| address.wrapping_sub(chunk.base) < chunk.size;
        let place = |chunk: &Chunk| {
            let start = chunk.copied.start + (address - chunk.base);
            if start + length > chunk.copied.end {
                return Err(Torn("frame above its chunk's top"));
            }
            Ok(Some(start..start + length))
        };
        if let Some(chunk) = self.chunks.iter().rev().find(|chunk| within(chunk)) {
            return place(chunk);
        }
        let older = chunk.previous;
        if older == 0 || !self.older_holds(mem, older, address) {
            // Chunks that were left behind hold no caller; a generator's frame is in none.
            return Ok(None);
        }
        let size = self.copy_older(mem, older)?;
        match self.chunks.last() {
            Some(chunk) if address.wrapping_sub(older) < size => place(chunk),
            _ => Ok(None),
        }
    }

    fn older_holds(&self, mem: &Reader, base: usize, address: usize) -> bool {
        let distance = address.wrapping_sub(base);
        distance < USUAL_CHUNK || mem.word(base.wrapping_add(8)).is_ok_and(|size| distance < size)
    }

    pub fn take_newest(&mut self, mem: &Reader, base: usize, top: usize) -> Result<(), Torn> {
        let used = top.wrapping_sub(base);
        if !(CHUNK_HEAD..=MAX_COPIED).contains(&used) {
            return Err(Torn("chunk's top outside the chunk"));
        }
        // The top was read before the innermost frame: leave room for what was called in between.
        // A chunk is always whole multiples of the usual size.
        let used = (used + MARGIN).min(used.next_multiple_of(USUAL_CHUNK));
        self.copy(mem, base, used)?;
        self.admit(base, used)
    }

    /// An older chunk is nearly full, so the usual size is read at once and the rest, if it is a
    /// larger one, behind it. Returns the chunk's size.
    fn copy_older(&mut self, mem: &Reader, base: usize) -> Result<usize, Torn> {
        let start = self.copy(mem, base, USUAL_CHUNK)?;
        let top = word_at(&self.bytes[start..], 16);
        let used = top.wrapping_mul(8).wrapping_add(CHUNK_HEAD);
        if used > MAX_COPIED || top > MAX_COPIED {
            return Err(Torn("older chunk's top outside the chunk"));
        }
        if used > USUAL_CHUNK {
            self.copy(mem, base + USUAL_CHUNK, used - USUAL_CHUNK)?;
        } else {
            self.used = start + used;
        }
        self.admit(base, used)?;
        Ok(self.chunks.last().map_or(0, |chunk| chunk.size))
    }

    fn copy(&mut self, mem: &Reader, address: usize, length: usize) -> Result<usize, Torn> {
        let (start, end) = (self.used, self.used + length);
        let extent = self.bytes.get_mut(start..end).ok_or(Torn("stack too large"))?;
        mem.read(address, extent).map_err(|_| Torn("chunk gone"))?;
        self.used = end;
        Ok(start)
    }

    /// Takes the last `used` bytes copied as the chunk at `base`, if its head makes sense.
    fn admit(&mut self, base: usize, used: usize) -> Result<(), Torn> {
        let copied = self.used - used..self.used;
        let head = &self.bytes[copied.clone()];
        let (previous, size) = (word_at(head, 0), word_at(head, 8));
        let seen = self.chunks.iter().any(|chunk| chunk.base == previous);
        if size < used || size > MAX_COPIED || previous == base || seen {
            return Err(Torn("chunk head makes no sense"));
        }
        self.chunks.push(Chunk { base, size, previous, copied });
        Ok(())
    }
}
