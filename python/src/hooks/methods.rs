//! A hook in a method of a class that is written in C, without another object in its place.
//!
//! How it works: what such a class keeps of a method (`method_descriptor`) points to the method's
//! definition (`PyMethodDef`). Ours is a copy with another function, which hands the call to the
//! hook; the original's function is called as CPython would call it. So the descriptor, and all
//! that can be asked of it, remain the same, also for code that holds it already.
//!
//! ```text
//!  caller -> descriptor -> our definition -> the hook -> the original definition's function
//! ```
//!
//! What it promises: the original gets the caller's arguments. A method that was bound before it
//! was hooked (`execute = cursor.execute`) is called as without us, one that is bound later is
//! hooked. In another interpreter of the process, which may share the class, the original is called
//! at once. Nothing of the class is held: its module has objects of the program's (sqlite3's
//! adapters), which end with it. A library that is imported anew has new classes with the same
//! definitions; their methods get the same hook. When the program has ended, the hooks are empty:
//! the original is called. Our definitions are never freed, since descriptors and bound methods
//! point to them.
//!
//! Missing on purpose: class and static methods; calling conventions that no hooked class uses;
//! definitions that are not static in a library, which is never unloaded.

use std::os::raw::c_int;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::actions::{Hook, Part};
use super::calling::{Arguments, Called, Original, OFFSET};
use super::stand_in;
use crate::kept::word;
use crate::made;

/// Most methods that are hooked.
const PLACES: usize = 24;

struct Entry {
    /// The method's name, owned, and `past`.
    original: Original,
    hook: Hook,
    definition: *mut ffi::PyMethodDef,
    ours: *mut ffi::PyMethodDef,
}

impl Entry {
    /// Whether a descriptor's definition is this one's, hooked or not.
    fn is_of(&self, definition: *mut ffi::PyMethodDef) -> bool {
        [self.definition, self.ours].contains(&definition)
    }
}

/// An entry is put into the first free place, whole (Release), before its method can be called
/// through it, and is never freed; read by any thread, or in a child that was forked at any moment
/// (Acquire).
static TABLE: [AtomicPtr<Entry>; PLACES] = [const { AtomicPtr::new(null_mut()) }; PLACES];

/// What belongs to a place: its functions for each convention, and the way past the hook.
#[derive(Clone, Copy)]
struct Functions {
    nothing: ffi::PyCFunction,
    tuple: ffi::PyCFunction,
    tuple_and_dict: ffi::PyCFunctionWithKeywords,
    many: ffi::PyCFunctionFast,
    keywords: ffi::PyCFunctionFastWithKeywords,
    past: ffi::vectorcallfunc,
}

const fn functions<const N: usize>() -> Functions {
    Functions {
        nothing: with_nothing::<N>,
        tuple: with_tuple::<N>,
        tuple_and_dict: with_tuple_and_dict::<N>,
        many: with_many::<N>,
        keywords: with_keywords::<N>,
        past: past::<N>,
    }
}

static FUNCTIONS: [Functions; PLACES] = [
    functions::<0>(),
    functions::<1>(),
    functions::<2>(),
    functions::<3>(),
    functions::<4>(),
    functions::<5>(),
    functions::<6>(),
    functions::<7>(),
    functions::<8>(),
    functions::<9>(),
    functions::<10>(),
    functions::<11>(),
    functions::<12>(),
    functions::<13>(),
    functions::<14>(),
    functions::<15>(),
    functions::<16>(),
    functions::<17>(),
    functions::<18>(),
    functions::<19>(),
    functions::<20>(),
    functions::<21>(),
    functions::<22>(),
    functions::<23>(),
];

const NOTHING: c_int = ffi::METH_NOARGS;
const TUPLE: c_int = ffi::METH_VARARGS;
const TUPLE_AND_DICT: c_int = ffi::METH_VARARGS | ffi::METH_KEYWORDS;
const MANY: c_int = ffi::METH_FASTCALL;
const KEYWORDS: c_int = ffi::METH_FASTCALL | ffi::METH_KEYWORDS;

impl Functions {
    /// None: the convention is not known here.
    fn of(self, flags: c_int) -> Option<ffi::PyMethodDefPointer> {
        Some(match flags {
            NOTHING => ffi::PyMethodDefPointer { PyCFunction: self.nothing },
            TUPLE => ffi::PyMethodDefPointer { PyCFunction: self.tuple },
            TUPLE_AND_DICT => {
                ffi::PyMethodDefPointer { PyCFunctionWithKeywords: self.tuple_and_dict }
            }
            MANY => ffi::PyMethodDefPointer { PyCFunctionFast: self.many },
            KEYWORDS => ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: self.keywords },
            _ => return None,
        })
    }
}

/// The word of a descriptor that points to its definition.
///
/// Safety: a live `method_descriptor`.
unsafe fn definition<'a>(descriptor: *mut ffi::PyObject) -> &'a AtomicPtr<ffi::PyMethodDef> {
    // SAFETY: promised by the caller; the word is aligned, and written here alone.
    unsafe {
        let object: *mut ffi::PyMethodDescrObject = descriptor.cast();
        AtomicPtr::from_ptr(&raw mut (*object).d_method)
    }
}

/// Hooks a method, unless it has a hook. Err: it is no method of a class in C whose convention is
/// known here, or there is no place for it.
pub(super) fn put(function: &Bound<'_, PyAny>, mut hook: Hook) -> Result<(), Hook> {
    let raw = function.as_ptr();
    // SAFETY: the GIL is held; the type says what it is.
    let word = unsafe {
        if ffi::Py_TYPE(raw) != &raw mut ffi::PyMethodDescr_Type || !is_main() {
            return Err(hook);
        }
        definition(raw)
    };
    let definition = word.load(Ordering::Acquire);
    for (place, functions) in TABLE.iter().zip(FUNCTIONS) {
        let mut taken = place.load(Ordering::Acquire);
        if taken.is_null() {
            let entry = entry_for(function, hook, functions, definition)?;
            let (release, acquire) = (Ordering::Release, Ordering::Acquire);
            taken = match place.compare_exchange(null_mut(), entry, release, acquire) {
                Ok(_) => {
                    // SAFETY: in the table, so it is never freed.
                    word.store(unsafe { (*entry).ours }, Ordering::Release);
                    return Ok(());
                }
                Err(other) => other,
            };
            // Taken by another thread meanwhile, which perhaps hooked the same.
            // SAFETY: not in the table, so it is still ours alone.
            hook = unsafe { undone(entry) };
        }
        // SAFETY: entries are never freed.
        let entry = unsafe { &*taken };
        if entry.is_of(definition) {
            word.store(entry.ours, Ordering::Release);
            return Ok(());
        }
    }
    Err(hook)
}

/// An entry that is not in the table yet.
fn entry_for(
    function: &Bound<'_, PyAny>,
    mut hook: Hook,
    functions: Functions,
    definition: *mut ffi::PyMethodDef,
) -> Result<*mut Entry, Hook> {
    // SAFETY: a definition is static in its library.
    let flags = unsafe { (*definition).ml_flags };
    let Some(ml_meth) = functions.of(flags) else { return Err(hook) };
    let Ok(name) = function.getattr(word!(function.py(), "__qualname__")) else { return Err(hook) };
    let past = Some(functions.past);
    if !hook.around.is_none() {
        // Only a way past the hook: what it represents is of no use, so it holds nothing else.
        let plain = Original { function: hook.around.get(), past };
        match stand_in::plain(function.py(), plain) {
            // It trusts its caller, so nobody gets it from the collector, which lists all that it
            // knows.
            // SAFETY: an object of a type with a collector's head; it has `around` alone, whose
            // reference is in no cycle with it.
            Ok(plain) => unsafe {
                ffi::PyObject_GC_UnTrack(plain.as_ptr().cast());
                hook.plain = Part::new(plain.into_ptr());
            },
            Err(_) => return Err(hook),
        }
    }
    let original = Original { function: name.into_ptr(), past };
    // SAFETY: as above.
    let ours = Box::into_raw(Box::new(unsafe { ffi::PyMethodDef { ml_meth, ..*definition } }));
    Ok(Box::into_raw(Box::new(Entry { original, hook, definition, ours })))
}

/// The hook of an entry that did not come into the table.
///
/// Safety: the GIL is held; the entry is the caller's alone.
unsafe fn undone(entry: *mut Entry) -> Hook {
    // SAFETY: promised by the caller; both boxes were made by `entry_for`.
    unsafe {
        let Entry { original, hook, ours, .. } = *Box::from_raw(entry);
        drop(Box::from_raw(ours));
        ffi::Py_DECREF(original.function);
        hook.plain.release();
        hook
    }
}

/// What the hooks hold is released: they call the originals. Not without the GIL, as
/// `in_place::remove_all`.
///
/// Safety: the GIL is held.
pub(super) unsafe fn remove_all() {
    if cfg!(Py_GIL_DISABLED) {
        return;
    }
    for place in &TABLE {
        // SAFETY: entries are never freed; the GIL is held.
        unsafe {
            let Some(entry) = place.load(Ordering::Acquire).as_ref() else { continue };
            entry.hook.parts().into_iter().for_each(|part| part.release());
        }
    }
}

/// Whether the thread is in the interpreter that the process began with.
///
/// Safety: the GIL is held.
unsafe fn is_main() -> bool {
    // SAFETY: promised by the caller.
    unsafe { ffi::PyInterpreterState_Get() == ffi::PyInterpreterState_Main() }
}

/// The entry of a place whose functions are called.
fn entry<const N: usize>() -> &'static Entry {
    // SAFETY: the place has been filled before its functions could be called.
    unsafe { &*TABLE[N].load(Ordering::Acquire) }
}

/// The original's function.
fn original<const N: usize>() -> ffi::PyMethodDefPointer {
    // SAFETY: a definition is static in its library.
    unsafe { (*entry::<N>().definition).ml_meth }
}

/// A call of the method that has arguments as vectorcall has them: `self` first.
unsafe extern "C" fn run<const N: usize>(
    _state: *mut ffi::PyObject,
    first: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    let entry = entry::<N>();
    // SAFETY: the GIL is held, by a call with these arguments.
    unsafe {
        entry.hook.run(&entry.original, Arguments { first, flagged: count as usize, keywords })
    }
}

unsafe extern "C" fn with_nothing<const N: usize>(
    this: *mut ffi::PyObject,
    null: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL; no argument is read behind `this`.
    unsafe {
        if !is_main() {
            return (original::<N>().PyCFunction)(this, null);
        }
        run::<N>(null_mut(), &raw const this, 1, null_mut())
    }
}

unsafe extern "C" fn with_many<const N: usize>(
    this: *mut ffi::PyObject,
    args: *mut *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
) -> *mut ffi::PyObject {
    // SAFETY: called by CPython with the GIL and arguments that the caller holds.
    unsafe {
        if !is_main() {
            return (original::<N>().PyCFunctionFast)(this, args, count);
        }
        let given = Arguments { first: args, flagged: count as usize, keywords: null_mut() };
        given.behind(this, 0, Called::Native(run::<N>, null_mut()))
    }
}

unsafe extern "C" fn with_keywords<const N: usize>(
    this: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as `with_many`.
    unsafe {
        if !is_main() {
            return (original::<N>().PyCFunctionFastWithKeywords)(this, args, count, keywords);
        }
        let given = Arguments { first: args, flagged: count as usize, keywords };
        given.behind(this, 0, Called::Native(run::<N>, null_mut()))
    }
}

unsafe extern "C" fn with_tuple<const N: usize>(
    this: *mut ffi::PyObject,
    args: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as `with_many`; `args` is a tuple.
    unsafe {
        if !is_main() {
            return (original::<N>().PyCFunction)(this, args);
        }
        let (first, flagged) = (items(args).as_ptr(), items(args).len());
        let given = Arguments { first, flagged, keywords: null_mut() };
        given.behind(this, 0, Called::Native(run::<N>, null_mut()))
    }
}

unsafe extern "C" fn with_tuple_and_dict<const N: usize>(
    this: *mut ffi::PyObject,
    args: *mut ffi::PyObject,
    named: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as `with_many`; `args` is a tuple, `named` a dict or NULL.
    unsafe {
        if !is_main() {
            return (original::<N>().PyCFunctionWithKeywords)(this, args, named);
        }
        if named.is_null() {
            let (first, flagged) = (items(args).as_ptr(), items(args).len());
            let given = Arguments { first, flagged, keywords: null_mut() };
            return given.behind(this, 0, Called::Native(run::<N>, null_mut()));
        }
        let py = Python::assume_attached();
        // Another thread may change the dict during the call: keys and values are held. Keys are
        // not compared, so no code of the program's runs.
        let dict = Bound::from_borrowed_ptr(py, named).cast_into_unchecked::<PyDict>();
        let split = |pairs: Vec<_>| -> (Vec<_>, Vec<_>) { pairs.into_iter().unzip() };
        let copied = made::pairs(&dict).map(split).and_then(|(keys, values)| {
            let names = made::tuple(py, &keys)?;
            Ok((names, values))
        });
        let Ok((keywords, values)) = copied else {
            // No memory for them: called as without us.
            return (original::<N>().PyCFunctionWithKeywords)(this, args, named);
        };
        let mut all = items(args).to_vec();
        all.extend(values.iter().map(Bound::as_ptr));
        let (first, flagged) = (all.as_ptr(), items(args).len());
        let keywords = if values.is_empty() { null_mut() } else { keywords.as_ptr() };
        let given = Arguments { first, flagged, keywords };
        given.behind(this, 0, Called::Native(run::<N>, null_mut()))
    }
}

/// The original's function, called as CPython calls it. The first argument is `self`. What CPython
/// checks before it calls the function was checked for the hooked method.
unsafe extern "C" fn past<const N: usize>(
    _name: *mut ffi::PyObject,
    first: *const *mut ffi::PyObject,
    flagged: usize,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by a hook of this place alone (the program cannot come by what calls it, see
    // `entry_for`), with the GIL and the arguments of a call of the method, which are held, `self`
    // among them. The flags say which function it is.
    unsafe {
        let flags = (*entry::<N>().definition).ml_flags;
        let (this, args, count) = (*first, first.add(1), (flagged & !OFFSET) - 1);
        let function = original::<N>();
        match flags {
            KEYWORDS => {
                return (function.PyCFunctionFastWithKeywords)(this, args, count as _, keywords);
            }
            NOTHING => return (function.PyCFunction)(this, null_mut()),
            MANY => return (function.PyCFunctionFast)(this, args.cast_mut(), count as _),
            _ => {}
        }
        let py = Python::assume_attached();
        let bound = |at: usize| Bound::from_borrowed_ptr(py, *args.add(at));
        let positional: Vec<_> = (0..count).map(bound).collect();
        let named = || -> PyResult<Option<Bound<'_, PyDict>>> {
            if keywords.is_null() {
                return Ok(None);
            }
            let named = made::dict(py)?;
            for (at, key) in items(keywords).iter().enumerate() {
                named.set_item(Bound::from_borrowed_ptr(py, *key), bound(count + at))?;
            }
            Ok(Some(named))
        };
        match made::tuple(py, &positional).and_then(|tuple| Ok((tuple, named()?))) {
            Err(error) => {
                error.restore(py);
                null_mut()
            }
            Ok((tuple, _)) if flags == TUPLE => (function.PyCFunction)(this, tuple.as_ptr()),
            Ok((tuple, named)) => {
                let named = named.as_ref().map_or(null_mut(), Bound::as_ptr);
                (function.PyCFunctionWithKeywords)(this, tuple.as_ptr(), named)
            }
        }
    }
}

/// The items of a tuple, borrowed from it.
///
/// Safety: the GIL is held; a tuple that is held while they are used.
unsafe fn items<'a>(tuple: *mut ffi::PyObject) -> &'a [*mut ffi::PyObject] {
    // SAFETY: promised by the caller; a tuple has its items behind its head.
    unsafe {
        let count = ffi::PyTuple_GET_SIZE(tuple) as usize;
        let first = (&raw const (*tuple.cast::<ffi::PyTupleObject>()).ob_item).cast();
        std::slice::from_raw_parts(first, count)
    }
}
