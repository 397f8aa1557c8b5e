//! Links with `nodelete`: the Vulkan loader would unload the library with the last instance, while its
//! threads run.
fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
}
