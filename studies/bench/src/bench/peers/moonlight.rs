//! The Moonlight client of the comparison: its name, and its prerequisites.

use std::path::PathBuf;
use std::process::Command;

use super::presence;
use super::table::{Need, PYTHON, Proof, element};

/// The row's name.
pub(super) const NAME: &str = "openuvr-moonlight";

/// The row's description.
pub(super) const WHAT: &str =
    "openuvr host; a client with Moonlight's protocol code, FFmpeg's decoder, GStreamer's window";

/// The client's package on PyPI, with its version.
const PACKAGE: &str = "moonlight-python==0.3.0 (PyPI; OPENUVR_MOONLIGHT_PYTHON names its Python)";

/// The Debian packages that the client's window needs.
const WINDOW: [Need; 4] = [
    element("gstreamer1.0-plugins-base", "videoconvert"),
    element("gstreamer1.0-x", "ximagesink"),
    Need {
        package: "python3-gi",
        proof: Proof::Typelib("GLib-2.0"),
    },
    Need {
        package: "gir1.2-gstreamer-1.0",
        proof: Proof::Typelib("Gst-1.0"),
    },
];

/// The Python that runs the client. By default it is Debian's Python, which can load the window's typelibs.
pub(in crate::bench) fn python() -> PathBuf {
    let named = std::env::var_os("OPENUVR_MOONLIGHT_PYTHON");
    named.map_or_else(|| PYTHON.into(), PathBuf::from)
}

/// The missing packages; `None` if all are installed.
pub(in crate::bench) fn missing() -> Option<String> {
    let mut packages = presence::missing(&WINDOW);
    let mut imports = Command::new(python());
    imports.args(["-c", "import av, gi, moonlight_python"]);
    if !presence::succeeds(imports) {
        packages.push(PACKAGE);
    }
    (!packages.is_empty()).then(|| packages.join(" "))
}

/// The client's version, if it is installed.
pub(in crate::bench) fn version() -> Option<String> {
    let mut asks = Command::new(python());
    asks.args([
        "-c",
        "from importlib.metadata import version as v; print('moonlight-python', v('moonlight-python'))",
    ]);
    let output = asks
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
