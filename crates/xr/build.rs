//! Links the library so that it is never unloaded. Otherwise, the OpenXR loader would unload it with the last instance,
//! while threads of the runtime are still ending. Also compiles the shaders to SPIR-V.

use std::path::{Path, PathBuf};

use naga::back::spv;
use naga::front::wgsl;
use naga::valid::{Capabilities, ValidationFlags, Validator};

const SHADERS: &str = "src/vulkan/layers.wgsl";

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={SHADERS}");
    let out = std::env::var_os("OUT_DIR").map(PathBuf::from);
    let out = out.expect("cargo sets OUT_DIR").join("layers.spv");
    compile(Path::new(SHADERS), &out);
}

/// Compiles both stages to one SPIR-V 1.0 module, which Vulkan 1.0 accepts.
fn compile(from: &Path, to: &Path) {
    let source = std::fs::read_to_string(from).expect("the shader source is readable");
    let module = wgsl::parse_str(&source);
    let module = module.unwrap_or_else(|e| panic!("{}", e.emit_to_string(&source)));
    let mut validator = Validator::new(ValidationFlags::all(), Capabilities::IMMEDIATES);
    let info = validator.validate(&module).expect("the shaders are valid");
    let options = spv::Options {
        lang_version: (1, 0),
        // The y axis of clip space points down, as in Vulkan.
        flags: spv::WriterFlags::empty(),
        ..spv::Options::default()
    };
    let words = spv::write_vec(&module, &info, &options, None).expect("SPIR-V");
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    std::fs::write(to, bytes).expect("OUT_DIR is writable");
}
