//! Memory: guarded reads of it, shared mappings, fences, a reserve, and how much is left.
//!
//! | module | is |
//! | --- | --- |
//! | mem | reads that return an error where a plain load would fault |
//! | map | a file or shared memory as a slice of atomic words |
//! | mapped | the files mapped in this process, and where |
//! | own_stack | the calling thread's own stack, copied |
//! | barrier | a fence of which one side is free |
//! | reserve | an allocator with some memory left when there is none |
//! | room | available memory: of the machine, the cgroup, the address space |
//!
//! What it promises: no access here raises SIGSEGV or SIGBUS in the host, and none ends it for lack
//! of memory. What is missing on purpose: what the memory means (crate `samplers`).

pub mod barrier;
pub mod map;
pub mod mapped;
pub mod mem;
pub mod own_stack;
pub mod reserve;
pub mod room;
