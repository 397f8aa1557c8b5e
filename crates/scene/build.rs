//! Writes the Rust types of the C API into `OUT_DIR`. Like any other program, the scene can stream itself through
//! libopenuvr. It opens libopenuvr at run time.

use std::path::PathBuf;
use std::process::exit;

const HEADER: &str = "../capi/include/openuvr.h";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let bindings = bindgen::builder()
        .header(HEADER)
        .allowlist_type("openuvr_(config|input)|OPENUVR_(INPUT_KIND|INPUT_TO|PIXEL_FORMAT)")
        .constified_enum_module("OPENUVR_.*")
        .derive_default(false)
        .generate_comments(false)
        .parse_callbacks(Box::new(bindgen::CargoCallbacks::new()))
        .generate();
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default()).join("openuvr.rs");
    let written = bindings.map(|bindings| bindings.write_to_file(&out));
    match written {
        Ok(Ok(())) => {}
        Ok(Err(error)) => fail(&format!("can't write {}: {error}", out.display())),
        Err(error) => fail(&format!(
            "bindgen could not read {HEADER}: {error}; install the package libclang-dev (Debian, Ubuntu)"
        )),
    }
}

fn fail(what: &str) -> ! {
    println!("cargo::error={}", what.trim().replace('\n', "; "));
    exit(1);
}
