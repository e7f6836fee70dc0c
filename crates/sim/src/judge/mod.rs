//! Judging the diagnosis: what it says of a simulated capture, beside the truth.
//!
//! `truth` reads the critical path of each request from the engine's logs; `case` runs one program
//! and compares; `table` counts many; `goals` says how good is good enough; `shrink` makes a
//! failing program small; `compare` puts the model beside recorded programs of the zoo;
//! `sensitivity` varies the thresholds; `calibrate` measures what each inference is worth.

pub mod calibrate;
pub mod case;
pub mod compare;
pub mod goals;
#[cfg(feature = "thresholds")]
pub mod sensitivity;
pub mod shrink;
pub mod table;
pub mod truth;
