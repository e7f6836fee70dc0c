//! c/include/dashcam.h is generated from c/src alone.
#![allow(clippy::expect_used, missing_docs)]

use std::path::Path;

#[test]
fn the_committed_header_is_the_generated_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut config =
        cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("cbindgen.toml is readable");
    config.header = Some(std::fs::read_to_string(root.join("src/header.h")).expect("there"));
    config.trailer = Some(std::fs::read_to_string(root.join("src/trailer.h")).expect("there"));
    let mut made = Vec::new();
    cbindgen::Builder::new()
        .with_config(config)
        .with_src(root.join("src/codes.rs"))
        .with_src(root.join("src/process.rs"))
        .with_src(root.join("src/moments.rs"))
        .with_src(root.join("src/metrics.rs"))
        .generate()
        .expect("c/src is understood")
        .write(&mut made);
    let made = String::from_utf8(made).expect("UTF-8");
    let path = root.join("include/dashcam.h");
    if std::env::var_os("DASHCAM_WRITE_HEADER").is_some() {
        std::fs::write(&path, &made).expect("written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let line = made.lines().zip(committed.lines()).position(|(new, old)| new != old);
    assert!(
        made == committed,
        "c/include/dashcam.h differs from c/src at line {}; refresh it with\n    \
         DASHCAM_WRITE_HEADER=1 cargo test -p dashcam-c --test header_is_generated_from_source",
        line.map_or(committed.lines().count().min(made.lines().count()), |at| at) + 1,
    );
}
