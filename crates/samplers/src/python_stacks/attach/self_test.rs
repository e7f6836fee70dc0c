//! Tries on the live interpreter what a published offset does not vouch for (3.14 and later).
//!
//! How it works: some frame runs some code. Their words must agree with each other in ways that
//! another layout would not:
//!
//! ```text
//!   frame --> function --> code                    the frame's own
//!                `-> closure: none, or a tuple     of the type of the code's names
//!   code --> exception table                       of the type of its line table
//!   types of code and of locks --> base            the same: object, which has none
//! ```
//!
//! What it promises: a layout whose unpublished fields moved is refused with the first thing that
//! does not fit. What is missing on purpose: objects that need not exist yet when recording begins
//! (tasks, generators); what is published of them is checked in `published`.

use crate::python_stacks::attach::unsupported::{refused, Unsupported};
use crate::python_stacks::layout::{object, Layout};
use crate::python_stacks::objects::sorts::{c_text, TYPE_NAME};
use sys::mem::Reader;

/// No compiler makes more locals, nor a deeper stack.
const MAX_SLOTS: usize = 1 << 20;

/// Tries the layout on a frame with its code, and on the types of code and of builtin methods.
pub(crate) fn check(
    mem: &Reader,
    layout: &Layout,
    types: (usize, usize),
    (frame, code): (usize, usize),
) -> Result<(), Unsupported> {
    let tried = Tried { mem, layout };
    tried.check_types(types)?;
    tried.check_code(code)?;
    tried.check_function(frame, code)
}

struct Tried<'a> {
    mem: &'a Reader,
    layout: &'a Layout,
}

impl Tried<'_> {
    fn word(&self, address: usize, offset: usize) -> usize {
        self.mem.word(address.wrapping_add(offset)).unwrap_or(0)
    }

    fn int(&self, address: usize, offset: usize) -> usize {
        let mut bytes = [0u8; 4];
        let read = self.mem.read(address.wrapping_add(offset), &mut bytes);
        read.ok().map_or(usize::MAX, |()| u32::from_ne_bytes(bytes) as usize)
    }

    /// The name of a type.
    fn name(&self, kind: usize) -> String {
        c_text(self.mem, self.word(kind, TYPE_NAME)).unwrap_or_default()
    }

    /// The type of an object.
    fn kind(&self, object: usize) -> usize {
        self.word(object, object::TYPE)
    }

    fn is_of(&self, thing: &'static str, object: usize, name: &str) -> Result<(), Unsupported> {
        let found = self.name(self.kind(object));
        match found == name {
            true => Ok(()),
            false => Err(refused(thing, format!("an object of type '{found}'"), name)),
        }
    }

    fn check_types(&self, (code, method): (usize, usize)) -> Result<(), Unsupported> {
        for (kind, name) in [(code, "code"), (method, "builtin_function_or_method")] {
            let found = self.name(kind);
            if found != name {
                return Err(refused("type's name", found, name));
            }
            let base = self.word(kind, self.layout.type_base);
            let found = self.name(base);
            if found != "object" || self.word(base, self.layout.type_base) != 0 {
                return Err(refused("type's base", format!("'{found}'"), "object"));
            }
        }
        Ok(())
    }

    fn check_code(&self, code: usize) -> Result<(), Unsupported> {
        let layout = self.layout;
        self.is_of("code object's names", self.word(code, layout.code_names), "tuple")?;
        self.is_of("code object's line table", self.word(code, layout.code_lines), "bytes")?;
        self.is_of(
            "code object's exception table",
            self.word(code, layout.code_exceptions),
            "bytes",
        )?;
        self.is_of("code object's name", self.word(code, layout.code_qualname), "str")?;
        let units = self.word(code, object::SIZE);
        let counts = [
            ("code object's stack size", layout.code_stack_size, MAX_SLOTS),
            ("code object's locals", layout.code_locals, MAX_SLOTS),
            ("code object's first traceable instruction", layout.code_first_traceable, units),
        ];
        for (thing, offset, most) in counts {
            let found = self.int(code, offset);
            if found > most {
                return Err(refused(thing, found.to_string(), &format!("up to {most}")));
            }
        }
        Ok(())
    }

    fn check_function(&self, frame: usize, code: usize) -> Result<(), Unsupported> {
        let layout = self.layout;
        let function = layout.untagged(self.word(frame, layout.frame_function));
        self.is_of("frame's function", function, "function")?;
        if self.word(function, layout.function_code) != code {
            return Err(refused("function's code", "another one".into(), "the frame's"));
        }
        match self.word(function, layout.function_closure) {
            0 => Ok(()),
            closure => self.is_of("function's closure", closure, "tuple"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(words: &[u64]) -> usize {
        words.as_ptr() as usize
    }

    fn kind(layout: &Layout, name: &'static [u8], base: usize) -> Vec<u64> {
        let mut words = vec![0u64; 52];
        words[TYPE_NAME / 8] = name.as_ptr() as u64;
        words[layout.type_base / 8] = base as u64;
        words
    }

    fn instance(kind: &[u64]) -> Vec<u64> {
        vec![1, at(kind) as u64, 0, 0]
    }

    /// A frame, what it runs, and their types.
    struct Fake {
        layout: Layout,
        types: (usize, usize),
        frame: Vec<u64>,
        function: Vec<u64>,
        code: Vec<u64>,
        kinds: Vec<Vec<u64>>,
        _objects: Vec<Vec<u64>>,
    }

    impl Fake {
        fn new() -> Fake {
            let layout = Layout::of(0x030f_02f0).expect("a known version");
            let object = kind(&layout, b"object\0", 0);
            let of_object = |name| kind(&layout, name, at(&object));
            let mut kinds: Vec<Vec<u64>> =
                [&b"code\0"[..], b"builtin_function_or_method\0", b"function\0", b"tuple\0"]
                    .map(of_object)
                    .into();
            kinds.extend([b"bytes\0", b"str\0\0\0"].map(|name| of_object(name)));
            let [tuple, bytes, text] = [3, 4, 5].map(|index| instance(&kinds[index]));
            let mut code = vec![1, at(&kinds[0]) as u64, 60];
            code.resize(40, 0);
            code[layout.code_names / 8] = at(&tuple) as u64;
            code[layout.code_lines / 8] = at(&bytes) as u64;
            code[layout.code_exceptions / 8] = at(&bytes) as u64;
            code[layout.code_qualname / 8] = at(&text) as u64;
            let mut function = instance(&kinds[2]);
            function.resize(20, 0);
            function[layout.function_code / 8] = at(&code) as u64;
            let mut frame = vec![0u64; 12];
            frame[layout.frame_function / 8] = at(&function) as u64 | 1;
            let types = (at(&kinds[0]), at(&kinds[1]));
            let objects = vec![object, tuple, bytes, text];
            Fake { layout, types, frame, function, code, kinds, _objects: objects }
        }

        fn refusal(&self) -> String {
            let mem = Reader::new().expect("a process may read itself");
            let frame = (at(&self.frame), at(&self.code));
            let checked = check(&mem, &self.layout, self.types, frame);
            checked.err().map_or_else(String::new, |why| format!("{} is {}", why.thing, why.found))
        }
    }

    #[test]
    fn words_that_agree_are_accepted() {
        assert_eq!(Fake::new().refusal(), "");
    }

    /// As if the field in question were somewhere else: what is read in its place is wrong.
    #[test]
    fn each_unpublished_field_that_moved_is_noticed() {
        let refusal = |change: fn(&mut Fake)| {
            let mut fake = Fake::new();
            change(&mut fake);
            fake.refusal()
        };
        let text = "an object of type 'str'";
        assert_eq!(refusal(|f| f.kinds[1][f.layout.type_base / 8] = 0), "type's base is ''");
        assert_eq!(
            refusal(|f| f.code[f.layout.code_names / 8] = f.code[f.layout.code_qualname / 8]),
            format!("code object's names is {text}")
        );
        assert_eq!(
            refusal(|f| f.code[f.layout.code_exceptions / 8] = f.code[f.layout.code_qualname / 8]),
            format!("code object's exception table is {text}")
        );
        assert_eq!(
            refusal(|f| f.code[f.layout.code_first_traceable / 8] = 61),
            "code object's first traceable instruction is 61"
        );
        assert_eq!(
            refusal(|f| f.code[f.layout.code_stack_size / 8] = 1 << 21),
            "code object's stack size is 2097152"
        );
        assert_eq!(
            refusal(|f| f.frame[f.layout.frame_function / 8] = at(&f.code) as u64),
            "frame's function is an object of type 'code'"
        );
        assert_eq!(
            refusal(|f| f.function[f.layout.function_code / 8] = at(&f.frame) as u64),
            "function's code is another one"
        );
        assert_eq!(
            refusal(|f| f.function[f.layout.function_closure / 8] = at(&f.code) as u64),
            "function's closure is an object of type 'code'"
        );
    }
}
