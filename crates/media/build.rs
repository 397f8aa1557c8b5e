//! Generates the bindings of libx264 in `OUT_DIR` (feature `host`).
//!
//! The bindings contain only types and constants. The library is GPL and is never linked; its functions are looked up
//! at run time (`encode/x264/sys.rs`).

use std::path::PathBuf;
use std::process::exit;

/// x264.h needs the fixed-size integers declared first.
const HEADER: &str = "#include <stdint.h>\n#include <x264.h>\n";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=BINDGEN_EXTRA_CLANG_ARGS");
    if std::env::var_os("CARGO_FEATURE_HOST").is_none() {
        return;
    }
    let bindings = bindgen::builder()
        .header_contents("openuvr_x264.h", HEADER)
        .allowlist_type("x264_(t|param_t|nal_t|picture_t)")
        .allowlist_var(
            "X264_(BUILD|CSP_(NV12|I444|BGRA|VFLIP)|LOG_NONE|RC_(ABR|CQP)|TYPE_(AUTO|IDR)|QP_AUTO|\
             KEYINT_MAX_INFINITE|MBINFO_CONSTANT)",
        )
        .derive_default(false)
        .generate_comments(false)
        .parse_callbacks(Box::new(bindgen::CargoCallbacks::new()))
        .generate();
    let bindings = match bindings {
        Ok(bindings) => bindings,
        Err(error) => fail(&format!("bindgen could not read x264.h: {error}")),
    };
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default()).join("x264.rs");
    if let Err(error) = bindings.write_to_file(&out) {
        fail(&format!("{}: {error}", out.display()));
    }
}

fn fail(what: &str) -> ! {
    println!(
        "cargo::error={}; install the packages libx264-dev and libclang-dev (Debian, Ubuntu), or \
         build without the feature `host`",
        what.trim().replace('\n', "; ")
    );
    exit(1);
}
