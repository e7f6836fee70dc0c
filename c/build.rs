//! How the shared library is linked.

fn main() {
    // Programs linked with -ldashcam search for this name, whatever cargo calls the file.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libdashcam.so.0");
    // Threads of the library run its code, so `dlclose` must not unload it.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // No symbol is left undefined: a missing one would fail in the host, at the first call.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,now");
    println!("cargo:rerun-if-changed=build.rs");
}
