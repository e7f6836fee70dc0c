//! The calling thread's own stack, copied from where it is called up to a frame further out.
//!
//! How it works: `from_here` marks the frame of its caller and calls a function with the mark.
//! `Base::copy`, called anywhere below that on the same thread, copies what lies between.
//!
//! ```text
//!   higher   caller of from_here
//!            from_here           <- the mark: copying ends here
//!            ... the program's frames
//!   lower    copy                <- stack and instruction pointer, and copying begins
//! ```
//!
//! What it promises: only memory of frames that are still active is read, by the thread whose
//! frames they are. Nothing is read on another thread, or where the thread runs on another stack
//! than its own (a coroutine's, a signal's, one that was grown): between the two may be pages that
//! cannot be read. Cost: a plain copy; a thread asks for the bounds of its stack once. Missing on
//! purpose: what the words mean (`samplers::native_stacks`), and other architectures, where nothing
//! is copied.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Range;

use crate::thread::cached_tid;

/// Copies are no longer than this.
const MOST_BYTES: usize = 1 << 20;

thread_local! {
    /// Begin and end of the calling thread's own stack, and whether that was asked for.
    static BOUNDS: Cell<(usize, usize, bool)> = const { Cell::new((0, 0, false)) };
}

/// A mark on the stack of a thread, for as long as the function runs that it was given to.
pub struct Base<'a> {
    address: usize,
    tid: u32,
    frame: PhantomData<&'a mut ()>,
}

/// Registers where a copy began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// Stack pointer: the address of the first byte copied.
    pub sp: u64,
    /// Instruction pointer.
    pub pc: u64,
    /// The register that may be a frame pointer.
    pub fp: u64,
}

/// Calls `run` with a mark of the stack here.
#[inline(never)]
pub fn from_here<R>(run: impl FnOnce(&Base<'_>) -> R) -> R {
    let mut here = 0u64;
    let address = std::ptr::from_mut(&mut here) as usize & !7;
    let out = run(&Base { address, tid: cached_tid(), frame: PhantomData });
    // The variable, and with it this frame, is still there when `run` returns.
    std::hint::black_box(&mut here);
    out
}

impl Base<'_> {
    /// Appends the innermost bytes of the stack, up to the mark and at most `most`, to `to`.
    /// None: called on another thread or stack, or stacks of this architecture are not understood.
    #[inline(never)]
    pub fn copy(&self, to: &mut Vec<u8>, most: usize) -> Option<Registers> {
        if cached_tid() != self.tid {
            return None;
        }
        copy_up_to(self.address, to, most)
    }
}

/// Of the function that calls this. None: stacks of this architecture are not understood.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn registers() -> Option<Registers> {
    let (sp, pc, fp): (u64, u64, u64);
    // SAFETY: reads three registers, and changes nothing but its outputs.
    unsafe {
        std::arch::asm!(
            "lea {pc}, [rip]",
            "mov {sp}, rsp",
            "mov {fp}, rbp",
            pc = out(reg) pc,
            sp = out(reg) sp,
            fp = out(reg) fp,
            options(nomem, nostack, preserves_flags),
        );
    }
    Some(Registers { sp, pc, fp })
}

/// Of the function that calls this. None: stacks of this architecture are not understood.
#[cfg(not(target_arch = "x86_64"))]
pub fn registers() -> Option<Registers> {
    None
}

/// The bounds of the calling thread's own stack; empty where they are not known.
fn bounds() -> Range<usize> {
    let (begin, end, is_known) = BOUNDS.get();
    if is_known {
        return begin..end;
    }
    let found = ask_bounds().unwrap_or(0..0);
    BOUNDS.set((found.start, found.end, true));
    found
}

fn ask_bounds() -> Option<Range<usize>> {
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut begin, mut size) = (std::ptr::null_mut(), 0usize);
    // SAFETY: the calling thread is alive. If the call succeeds it has initialised the attributes,
    // which are read into two variables of the right types, and destroyed once.
    let got = unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let got = libc::pthread_attr_getstack(attributes.as_ptr(), &mut begin, &mut size);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        got
    };
    let begin = begin as usize;
    (got == 0).then_some(begin..begin.checked_add(size)?)
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn copy_up_to(end: usize, to: &mut Vec<u8>, most: usize) -> Option<Registers> {
    let own = bounds();
    let up_to_end = |sp: u64| {
        let length = end.checked_sub(sp as usize).filter(|length| *length <= MOST_BYTES);
        length.filter(|_| own.contains(&(sp as usize)) && own.contains(&end))
    };
    // Memory is taken before the registers are read: what is copied is of one moment.
    to.reserve(up_to_end(registers()?.sp)?.min(most));
    let at = registers()?;
    let length = up_to_end(at.sp)?.min(most).min(to.capacity() - to.len());
    // SAFETY: `[sp, end)` lies between the stack pointer and a variable of `from_here`, which has
    // not returned (`Base` lives only inside of it) and runs on this thread (checked by the
    // caller). Both are within the bounds of this thread's own stack, whose memory between two of
    // its active frames is mapped. The bytes are moved by an instruction, so it does not matter to
    // the compiler whether they are initialised. The target has room for `length` bytes, and is
    // memory of its own: a Vec's.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rcx") length => _,
            inout("rdi") to.as_mut_ptr().add(to.len()) => _,
            inout("rsi") at.sp => _,
            options(nostack, preserves_flags),
        );
        to.set_len(to.len() + length);
    }
    Some(at)
}

#[cfg(not(target_arch = "x86_64"))]
fn copy_up_to(_end: usize, _to: &mut Vec<u8>, _most: usize) -> Option<Registers> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn inner(base: &Base<'_>, secret: u64, to: &mut Vec<u8>, most: usize) -> Option<Registers> {
        let kept = std::hint::black_box([secret; 4]);
        let copied = base.copy(to, most);
        std::hint::black_box(&kept);
        copied
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn what_lies_between_is_copied_and_no_more() {
        let (mut to, secret) = (Vec::new(), 0x5ec2_e7a1_0b5e_55ed_u64);
        let (mark, at) = from_here(|base| (base.address, inner(base, secret, &mut to, 16 << 10)));
        let at = at.expect("this architecture is understood");
        assert_eq!(at.sp as usize + to.len(), mark);
        let words = to.chunks_exact(8).map(|w| u64::from_ne_bytes(w.try_into().expect("8 bytes")));
        assert!(words.filter(|word| *word == secret).count() >= 4);
        let code = Base::copy as *const () as usize;
        assert!((at.pc as usize).abs_diff(code) < 4096, "the instruction pointer is in `copy`");
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_copy_is_cut_and_appended() {
        let mut to = vec![7u8; 3];
        from_here(|base| inner(base, 1, &mut to, 64)).expect("this architecture is understood");
        assert_eq!((to.len(), &to[..3]), (67, &[7u8; 3][..]));
    }

    #[test]
    fn a_variable_is_within_the_bounds_and_the_heap_is_not() {
        let (here, heap) = (0u8, Box::new(0u8));
        for _ in 0..2 {
            assert!(bounds().contains(&(&raw const here as usize)));
            assert!(!bounds().contains(&(&raw const *heap as usize)));
        }
    }

    /// As on a stack that was grown: the mark is on another one.
    #[test]
    fn nothing_is_copied_up_to_another_stack() {
        let elsewhere = bounds().end + 64;
        let mut to = Vec::new();
        let (address, tid) = (elsewhere, cached_tid());
        assert_eq!(Base { address, tid, frame: PhantomData }.copy(&mut to, 64), None);
        assert!(to.is_empty());
    }

    #[test]
    fn another_thread_copies_nothing() {
        let mut to = Vec::new();
        let seen = from_here(|base| {
            let base = &base;
            std::thread::scope(|s| s.spawn(|| base.copy(&mut to, 64)).join().expect("no panic"))
        });
        assert_eq!((seen, to.len()), (None, 0));
    }
}
