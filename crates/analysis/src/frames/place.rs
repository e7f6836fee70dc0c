//! A place in the source, as the verdict names it.

/// A place in the source, as the verdict names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// Function, without its class.
    pub function: String,
    /// Function with its class and enclosing functions.
    pub qualified: String,
    /// File, as the interpreter knows it.
    pub file: String,
    /// Line.
    pub line: u32,
    /// Dotted module, as far as the path shows it.
    pub module: String,
}

/// A function by its qualified name and its file, whatever line of it.
pub type Function = (String, String);

impl Place {
    /// Its function.
    pub fn in_function(&self) -> Function {
        (self.qualified.clone(), self.file.clone())
    }

    /// Whether both are in one function.
    pub fn is_in_function_of(&self, other: &Place) -> bool {
        (&self.qualified, &self.file) == (&other.qualified, &other.file)
    }

    /// Native code without a name.
    pub fn is_an_address(&self) -> bool {
        self.function == "?" || self.function.starts_with("0x")
    }

    /// It is in a source of Rust.
    pub fn is_rust(&self) -> bool {
        self.file.ends_with(".rs")
    }

    /// The capture has no name for it: its table of code was damaged.
    pub fn is_nameless(&self) -> bool {
        self.function == "?" && self.file == "?"
    }

    /// `geocache.py:41 backoff()`.
    pub fn short(&self) -> String {
        let base = self.file.rsplit('/').next().unwrap_or(&self.file);
        match self.line {
            // Native code without debug information.
            0 => format!("{base} {}()", self.function),
            line => format!("{base}:{line} {}()", self.function),
        }
    }
}
