//! Compiles the shaders from WGSL to SPIR-V.

use std::path::{Path, PathBuf};

use naga::back::spv;
use naga::front::wgsl;
use naga::valid::{Capabilities, ValidationFlags, Validator};

/// Paths below `src`.
const SHADERS: [&str; 1] = ["room/room"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let out = std::env::var_os("OUT_DIR").map(PathBuf::from);
    let out = out.expect("cargo sets it");
    for shader in SHADERS {
        let from = Path::new("src").join(shader).with_extension("wgsl");
        println!("cargo::rerun-if-changed={}", from.display());
        let name = from.file_name().expect("a file name");
        compile(&from, &out.join(name).with_extension("spv"));
    }
}

/// Compiles all stages to one module of SPIR-V 1.0, which Vulkan 1.0 accepts.
fn compile(from: &Path, to: &Path) {
    let source = std::fs::read_to_string(from).expect("the shader source");
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
    std::fs::write(to, bytes).expect("a writable OUT_DIR");
}
