//! Registers the Vulkan layer in `libopenuvr_hook.so` with the Vulkan loader: writes a manifest into a folder, and sets
//! variables that name the folder and the layer. `crates/hook/src/vulkan/mod.rs` explains the variables.
//!
//! Nothing is installed; other programs are not affected.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::{fs, io};

/// The layer's manifest. Its library path is relative to the folder of the manifest; [`register`] replaces the path.
const MANIFEST: &str = include_str!("VkLayer_openuvr_capture.json");

/// The default data folders (XDG base directory specification).
const DATA: &str = "/usr/local/share:/usr/share";

/// Writes the manifest into `folder`, and returns the environment variables that load the layer in `library`, an
/// absolute path. `now` looks up the current values of these variables, which are appended to the new values.
///
/// # Errors
/// Returns an error if the folder cannot be written to, or the library's path is not UTF-8, which a manifest requires.
pub(super) fn register(
    folder: &Path,
    library: &Path,
    now: impl Fn(&str) -> Option<OsString>,
) -> io::Result<[(&'static str, OsString); 2]> {
    let mut manifest: serde_json::Value = serde_json::from_str(MANIFEST)?;
    let layer = &mut manifest["layer"];
    layer["library_path"] = serde_json::to_value(library)?;
    let name = layer["name"].as_str().unwrap_or_default().to_owned();
    let layer_folder = folder.join("vulkan/explicit_layer.d");
    fs::create_dir_all(&layer_folder)?;
    let file = layer_folder.join("VkLayer_openuvr_capture.json");
    fs::write(file, serde_json::to_vec_pretty(&manifest)?)?;
    let set = |name| now(name).filter(|value| !value.is_empty());
    // `VK_LAYER_PATH` replaces all other search paths. If it is set, the layer's folder must be in it.
    let found = match set("VK_LAYER_PATH") {
        Some(path) => ("VK_LAYER_PATH", prepend(layer_folder.as_os_str(), &path)),
        None => {
            let data = set("XDG_DATA_DIRS").unwrap_or_else(|| DATA.into());
            ("XDG_DATA_DIRS", prepend(folder.as_os_str(), &data))
        }
    };
    let switched_on = match set("VK_INSTANCE_LAYERS") {
        Some(layers) => prepend(OsStr::new(&name), &layers),
        None => name.into(),
    };
    Ok([found, ("VK_INSTANCE_LAYERS", switched_on)])
}

/// A list with a prepended entry.
fn prepend(first: &OsStr, others: &OsStr) -> OsString {
    let mut list = first.to_owned();
    list.push(":");
    list.push(others);
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registered(now: &[(&str, &str)]) -> (Vec<(&'static str, String)>, serde_json::Value) {
        let temporary = tempfile::tempdir().expect("a folder");
        let folder = temporary.path();
        let library = Path::new("/a \"b\"/libopenuvr_hook.so");
        let look = |name: &str| {
            let found = now.iter().find(|(of, _)| *of == name);
            found.map(|(_, value)| OsString::from(value))
        };
        let set = register(folder, library, look).expect("a temporary folder");
        let file = folder.join("vulkan/explicit_layer.d/VkLayer_openuvr_capture.json");
        let text = fs::read(file).expect("it was written");
        let folder = folder.to_str().expect("UTF-8");
        let set = set.map(|(name, value)| {
            let value = value.into_string().expect("UTF-8");
            (name, value.replace(folder, "FOLDER"))
        });
        (set.into(), serde_json::from_slice(&text).expect("JSON"))
    }

    #[test]
    fn the_manifest_names_the_library_and_the_variables_name_both() {
        let (set, manifest) = registered(&[]);
        let layer = &manifest["layer"];
        assert_eq!(layer["library_path"], "/a \"b\"/libopenuvr_hook.so");
        assert_eq!(layer["name"], "VK_LAYER_OPENUVR_capture");
        let data = "FOLDER:/usr/local/share:/usr/share".to_owned();
        let layers = "VK_LAYER_OPENUVR_capture".to_owned();
        assert_eq!(
            set,
            [("XDG_DATA_DIRS", data), ("VK_INSTANCE_LAYERS", layers)]
        );
    }

    #[test]
    fn the_users_own_values_stay_after_it() {
        let (set, _) = registered(&[
            ("VK_LAYER_PATH", "/mine"),
            ("XDG_DATA_DIRS", "/other"),
            ("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation"),
        ]);
        let path = "FOLDER/vulkan/explicit_layer.d:/mine".to_owned();
        let layers = "VK_LAYER_OPENUVR_capture:VK_LAYER_KHRONOS_validation".to_owned();
        assert_eq!(
            set,
            [("VK_LAYER_PATH", path), ("VK_INSTANCE_LAYERS", layers)]
        );
    }
}
