//! trigger
