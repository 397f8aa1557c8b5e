//! Links with `nodelete`, because the Vulkan loader would otherwise unload the library with the last instance, while
//! the library's threads still run.
fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
}
