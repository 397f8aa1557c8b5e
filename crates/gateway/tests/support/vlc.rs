//! VLC, which copies streams and files unchanged into another container.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::skip::skip;

/// The user as which VLC runs, because it refuses to run as root.
const UNPRIVILEGED: &str = "65534";

/// Folders in which VLC's plugins may be, on Debian and other systems.
const PLUGINS: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/vlc/plugins",
    "/usr/lib/aarch64-linux-gnu/vlc/plugins",
    "/usr/lib/vlc/plugins",
];

/// Whether VLC is installed, with this plugin if one is named.
pub(crate) fn is_there(plugin: Option<&str>) -> bool {
    let vlc = Path::new("/usr/bin/cvlc").exists();
    let has = |plugin: &str| PLUGINS.iter().any(|at| Path::new(at).join(plugin).exists());
    if vlc && plugin.is_none_or(has) {
        return true;
    }
    match plugin {
        Some(plugin) => skip(&format!(
            "there is no VLC with {plugin}: Debian's lacks RTSP"
        )),
        None => skip("VLC is not installed: apt-get install vlc-bin vlc-plugin-base"),
    }
    false
}

/// Lets VLC copy `what` into a Matroska file in `folder`, for at most this many seconds. Returns the file's path, and
/// the output of the VLC process.
pub(crate) fn copies(what: &str, folder: &Path, seconds: u32) -> (PathBuf, Output) {
    let (home, file) = (folder.join("vlc"), folder.join("vlc/it.mkv"));
    std::fs::create_dir_all(&home).unwrap();
    let mut command = Command::new("setpriv");
    if rustix::process::getuid().is_root() {
        for path in [folder, &home] {
            let anyone = std::os::unix::fs::PermissionsExt::from_mode(0o777);
            std::fs::set_permissions(path, anyone).unwrap();
        }
        command.args([
            "--reuid",
            UNPRIVILEGED,
            "--regid",
            UNPRIVILEGED,
            "--clear-groups",
        ]);
    }
    let to = format!("#std{{access=file,mux=mkv,dst={}}}", file.display());
    let seconds = format!("--run-time={seconds}");
    let out = (command.arg("cvlc"))
        .args([
            "-I",
            "dummy",
            "--no-media-library",
            "--quiet",
            &seconds,
            "--sout",
            &to,
        ])
        .args([what, "vlc://quit"])
        .env("HOME", &home)
        .env("XDG_RUNTIME_DIR", &home)
        .env_remove("DISPLAY")
        .stdin(Stdio::null())
        .output();
    (file, out.expect("setpriv, of util-linux"))
}
