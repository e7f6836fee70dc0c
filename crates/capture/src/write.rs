//! Writes a capture, chunk by chunk.

use std::io::{self, Write};

use format::chunk;

/// Bytes of blocks gathered before a chunk is written.
const BLOCKS_BYTES: usize = 64 * 1024;

/// Streams a capture into `out`. Call `meta`, `tables`, `block` any number of times, `finish`.
pub struct CaptureWriter<W: Write> {
    out: W,
    blocks: Vec<u8>,
    block_count: u64,
}

impl<W: Write> CaptureWriter<W> {
    /// Begins the file with its magic line and the META chunk.
    pub fn new(mut out: W, meta_json: &str) -> io::Result<CaptureWriter<W>> {
        out.write_all(chunk::MAGIC)?;
        let blocks = Vec::with_capacity(BLOCKS_BYTES + 16 * 1024);
        let mut writer = CaptureWriter { out, blocks, block_count: 0 };
        writer.chunk(chunk::META, meta_json.as_bytes())?;
        Ok(writer)
    }

    /// META again: the later chunk counts.
    pub fn meta(&mut self, meta_json: &str) -> io::Result<()> {
        self.chunk(chunk::META, meta_json.as_bytes())
    }

    /// Writes everything so far to `out`, and flushes it.
    pub fn flush(&mut self) -> io::Result<()> {
        self.flush_blocks()?;
        self.out.flush()
    }

    /// The four tables: threads, names, codes, stacks.
    pub fn tables(&mut self, tables: &[Vec<u64>; 4]) -> io::Result<()> {
        let tags = [chunk::THREADS, chunk::NAMES, chunk::CODES, chunk::STACKS];
        for (tag, table) in tags.into_iter().zip(tables) {
            let bytes: Vec<u8> = table.iter().flat_map(|w| w.to_le_bytes()).collect();
            self.chunk(tag, &bytes)?;
        }
        Ok(())
    }

    /// Spans that are open, as `Region::copy_open` returns them; the later of two calls counts.
    /// Take them before the blocks: a span that ends in between is in both, and readers ignore the
    /// open one.
    pub fn open_spans(&mut self, words: &[u64]) -> io::Result<()> {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.chunk(chunk::OPEN, &bytes)
    }

    /// One copied block.
    pub fn block(&mut self, words: &[u64]) -> io::Result<()> {
        self.blocks.extend_from_slice(&(words.len() as u32).to_le_bytes());
        self.blocks.extend_from_slice(&[0; 4]);
        self.blocks.extend(words.iter().flat_map(|w| w.to_le_bytes()));
        self.block_count += 1;
        if self.blocks.len() >= BLOCKS_BYTES {
            self.flush_blocks()?;
        }
        Ok(())
    }

    /// The end mark, with the number of blocks that were overwritten while they were copied;
    /// returns `out`.
    pub fn finish(mut self, overwritten: u64) -> io::Result<W> {
        self.flush_blocks()?;
        let counts = [self.block_count.to_le_bytes(), overwritten.to_le_bytes()].concat();
        self.chunk(chunk::END, &counts)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn flush_blocks(&mut self) -> io::Result<()> {
        if self.blocks.is_empty() {
            return Ok(());
        }
        let blocks = std::mem::take(&mut self.blocks);
        self.chunk(chunk::BLOCKS, &blocks)?;
        self.blocks = blocks;
        self.blocks.clear();
        Ok(())
    }

    fn chunk(&mut self, tag: [u8; 4], payload: &[u8]) -> io::Result<()> {
        let length = u32::try_from(payload.len())
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "chunk over 4 GiB"))?;
        self.out.write_all(&tag)?;
        self.out.write_all(&length.to_le_bytes())?;
        self.out.write_all(&checksum(tag, payload).to_le_bytes())?;
        self.out.write_all(payload)?;
        Ok(())
    }
}

/// CRC-32 (IEEE) of tag, length and payload.
pub fn checksum(tag: [u8; 4], payload: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&tag);
    crc.update(&(payload.len() as u32).to_le_bytes());
    crc.update(payload);
    crc.finalize()
}
