//! How the shared library is linked.

fn main() {
    // Programs that link with -ldashcam look for this name, whatever cargo calls the file.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libdashcam.so.0");
    // Threads of ours run its code, so `dlclose` must not take it away.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // Nothing is left undefined for a host to stumble over when a call is made.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,now");
    println!("cargo:rerun-if-changed=build.rs");
}
