//! The capture file: a line of text, then chunks, each with its own checksum.
//!
//! ```text
//!  "DASHCAM 2\n"                                  10 bytes, so `head -1` says what the file is
//!  chunk: tag (4 bytes) | length u32 LE | crc32 u32 LE of tag, length and payload | payload
//!  META   JSON: who, when, why, settings, sources, losses, and the schema of the records
//!  THRD   the thread table, as in the region
//!  NAME   the names area, as in the region
//!  CODE   the code entries
//!  STCK   the stack nodes
//!  OPEN   spans open when the copy was made, 4 words each:
//!         name (32) | thread (32), begin, request, 0
//!  BLKS   copied blocks, each: u32 words, u32 zero, then that many words   (many such chunks)
//!  SYMS   names of native code, resolved by a reader on the host; see `symbols`
//!  ENDS   u64 number of blocks in the file, u64 blocks overwritten while they were copied
//!  SRCE   JSON: lines of source around the places of the verdict, appended by a reader on the host
//! ```
//! Tables come before the blocks, so a file cut off at any byte still yields every block that is
//! complete in it. A chunk with an unknown tag is skipped (a newer writer); a chunk whose checksum
//! is wrong is skipped and counted. All integers are little-endian.
//!
//! The recorder's file ends with ENDS. What a reader adds behind it is read if it is whole, and
//! else ignored.

/// First bytes of every capture.
pub const MAGIC: &[u8] = b"DASHCAM 2\n";
/// JSON about the capture.
pub const META: [u8; 4] = *b"META";
/// Thread table.
pub const THREADS: [u8; 4] = *b"THRD";
/// Names.
pub const NAMES: [u8; 4] = *b"NAME";
/// Code entries.
pub const CODES: [u8; 4] = *b"CODE";
/// Stack nodes.
pub const STACKS: [u8; 4] = *b"STCK";
/// Open spans.
pub const OPEN: [u8; 4] = *b"OPEN";
/// Blocks.
pub const BLOCKS: [u8; 4] = *b"BLKS";
/// Names of native code: `symbols`.
pub const SYMBOLS: [u8; 4] = *b"SYMS";
/// Lines of source, behind the end.
pub const SOURCE: [u8; 4] = *b"SRCE";
/// End of the recorder's file.
pub const END: [u8; 4] = *b"ENDS";
/// Bytes of a chunk before its payload.
pub const HEADER_BYTES: usize = 12;
/// Largest payload a reader accepts; writers stay at or below 1 MiB but for the tables.
pub const MAX_PAYLOAD: usize = 1 << 30;
