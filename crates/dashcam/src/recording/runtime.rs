//! The language runtime in this process.

use samplers::python_stacks::RuntimeInfo;

/// The language runtime in this process, as its binding knows it.
#[derive(Clone, Default)]
pub struct Runtime {
    /// `CPython 3.11.7`; empty for none.
    pub name: String,
    /// Folders of its own library.
    pub stdlib: Vec<String>,
    /// Folders of installed packages.
    pub site: Vec<String>,
    /// Folders of those installed packages that are the service itself.
    pub application: Vec<String>,
    /// Folder of our own package.
    pub package: String,
    /// What the stack reader needs; None: no Python here, or why not in `no_stacks`.
    pub python: Option<RuntimeInfo>,
    /// Why stacks cannot be read, when they cannot.
    pub no_stacks: String,
}
