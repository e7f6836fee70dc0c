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

    /// `geocache.py:41 backoff()`; `blowfish-0.9.1/src/lib.rs:104 encrypt()`.
    pub fn short(&self) -> String {
        let base = self.file_in_short();
        match self.line {
            // Native code without debug information.
            0 => format!("{base} {}()", self.function),
            line => format!("{base}:{line} {}()", self.function),
        }
    }

    /// The file's name; with its package's where each package has a file of that name.
    fn file_in_short(&self) -> &str {
        let name_at = self.file.rfind('/').map_or(0, |at| at + 1);
        let name = &self.file[name_at..];
        let begin = match name {
            "__init__.py" | "__main__.py" => self.file[..name_at.saturating_sub(1)].rfind('/'),
            // That of a program of one's own is known.
            "lib.rs" | "mod.rs" | "main.rs" => super::owner::cargo_package(&self.file)
                .and_then(|package| self.file.find(&format!("/{package}/"))),
            _ => None,
        };
        &self.file[begin.map_or(name_at, |at| at + 1)..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_a_name_that_all_packages_have_is_named_with_its_package() {
        let short =
            |file: &str| Place { file: file.to_owned(), line: 7, ..Place::default() }.short();
        let registry = "/h/.cargo/registry/src/index-1";
        assert_eq!(short(&format!("{registry}/rsa-0.9.1/src/lib.rs")), "rsa-0.9.1/src/lib.rs:7 ()");
        assert_eq!(short(&format!("{registry}/rsa-0.9.1/src/key.rs")), "key.rs:7 ()");
        assert_eq!(short("/srv/billy/src/main.rs"), "main.rs:7 ()");
        assert_eq!(short("/lib/site-packages/kombu/__init__.py"), "kombu/__init__.py:7 ()");
        assert_eq!(short("__init__.py"), "__init__.py:7 ()");
    }
}
