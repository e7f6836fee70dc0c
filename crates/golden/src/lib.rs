//! Golden captures: stored captures with the verdict on each, and the right answer beside it.
//!
//! How it works: `tests/captures/` holds, for each capture, `NAME.dashcam.gz`, the verdict as
//! `dashcam why` prints it (`NAME.expected.txt`), and its origin and the right answer
//! (`NAME.toml`). `verdict` judges a capture as `why` does, `answer` compares the verdict with the
//! right answer, `trim` makes a recorded capture fit for the repository, `neutral` shows that it
//! names no machine, `damage` makes the damaged ones, `large` makes captures of any size, `store`
//! reads and writes the files.
//!
//! What it promises: the judgement is a pure function of the stored bytes: the names of native code
//! are in them (chunk `SYMS`), so no binary is opened; no clock or environment is read. Missing on
//! purpose: recording (tests/captures/record.py).

pub mod answer;
pub mod chunks;
pub mod compare;
pub mod damage;
pub mod large;
pub mod neutral;
pub mod store;
pub mod trim;
pub mod verdict;
pub mod words;
