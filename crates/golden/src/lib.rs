//! Golden captures: stored captures with the verdict on each, and the right answer beside it.
//!
//! How it works: `tests/captures/` holds, for each capture, `NAME.dashcam.gz`, the verdict as
//! `dashcam why` prints it (`NAME.expected.txt`), and where it comes from and what is true
//! (`NAME.toml`). `verdict` judges a capture as `why` does, `answer` compares the verdict with what
//! is true, `trim` makes a recorded capture fit for the repository, `neutral` proves that it names
//! no machine, `damage` makes the damaged ones, `store` reads and writes the files.
//!
//! What it promises: the judgement is a pure function of the stored bytes: names of native code are
//! in them (chunk `SYMS`), no binary is opened, no clock or environment is asked.
//! What is missing on purpose: recording (tests/captures/record.py).

pub mod answer;
pub mod chunks;
pub mod compare;
pub mod damage;
pub mod neutral;
pub mod store;
pub mod trim;
pub mod verdict;
