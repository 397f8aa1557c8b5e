//! The library stays where it is loaded: the loader of Vulkan would unload it with the last instance,
//! under our threads.
fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
}
