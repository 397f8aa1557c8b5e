//! `openuvr portal --demo`: a portal with a temporary data folder, a temporary account, and the applications installed
//! on this machine.

use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use openuvr_terminal::out;
use tracing::warn;

use crate::accounts;
use crate::config::Config;
use crate::serve;
use crate::store::User;

/// Name of the account.
const NAME: &str = "demo";

/// Applications that the portal offers if they are installed: program, arguments, title, description, capture method.
const APPLICATIONS: [(&str, &[&str], &str, &str, &str); 5] = [
    (
        "openarena",
        &[
            "+set",
            "r_fullscreen",
            "0",
            "+set",
            "r_mode",
            "-1",
            "+set",
            "r_customwidth",
            "1280",
            "+set",
            "r_customheight",
            "720",
        ],
        "OpenArena",
        "A shooter with the Quake 3 engine",
        "screen",
    ),
    (
        "supertuxkart",
        &["--windowed", "--screensize=1280x720"],
        "SuperTuxKart",
        "Kart racing",
        "screen",
    ),
    (
        "chromium-bsu",
        &[],
        "Chromium B.S.U.",
        "A small spaceship shooter",
        "screen",
    ),
    ("glxgears", &[], "Gears", "Three gears that turn", "screen"),
    ("xterm", &[], "Terminal", "Shows keyboard input", "screen"),
];

/// Runs the portal until a signal arrives, then ends all sessions.
///
/// # Errors
/// Returns an error if a file, the account or the server cannot be created or opened.
pub(crate) async fn run(mut config: Config) -> Result<()> {
    let folder = tempfile::Builder::new()
        .prefix("openuvr-portal-")
        .permissions(fs::Permissions::from_mode(0o700))
        .tempdir()
        .context("cannot create a temporary folder")?;
    let at = || folder.path().display().to_string();
    let openuvr = beside("openuvr").unwrap_or_else(|| "openuvr".into());
    config.data = folder.path().join("data");
    config.database = None;
    config.applications = folder.path().join("applications.toml");
    config.local.program = vec![openuvr.display().to_string(), "session".to_owned()];
    config.limits.sessions = 2;
    fs::write(&config.applications, applications(&openuvr)).with_context(at)?;
    let password = accounts::random_password();
    let user = User {
        name: NAME.to_owned(),
        password: accounts::hash(&password)?,
        operator: true,
        sessions: None,
    };
    serve::store(&config).await?.add_user(&user, None).await?;
    out::unlimited_message(format_args!(
        "Log in as {NAME} with the password {password}; Ctrl-C stops the portal and its sessions"
    ));
    let served = serve::serve(config, serve::SessionsAtExit::End).await;
    let at = at();
    if let Err(why) = folder.close() {
        warn!("cannot remove {at}: {why}");
    }
    served
}

/// The text of an applications file, in the format that operators write.
fn applications(openuvr: &Path) -> String {
    let mut text = String::new();
    let mut add = |name: &str, words: &[&str], title: &str, description: &str, capture: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "[[application]]\nname = {name:?}\ntitle = {title:?}\ndescription = {description:?}\n\
             command = {words:?}\ncapture = {capture:?}\n"
        );
    };
    let scene = openuvr.display().to_string();
    add(
        "scene",
        &[&scene, "scene"],
        "Scene",
        "OpenUVR's built-in scene: it moves and reacts to the mouse",
        "screen",
    );
    for (program, more, title, description, capture) in APPLICATIONS {
        if let Some(found) = on_path(program) {
            let found = found.display().to_string();
            let words: Vec<&str> = [found.as_str()]
                .into_iter()
                .chain(more.iter().copied())
                .collect();
            add(program, &words, title, description, capture);
        }
    }
    text
}

/// The path of a program in the same folder as this program. `./dev install` and cargo put the portal and `openuvr`
/// into the same folder.
fn beside(name: &str) -> Option<PathBuf> {
    let own = env::current_exe().ok()?;
    Some(own.parent()?.join(name)).filter(|file| file.is_file())
}

/// The path of a program on the search path. The search includes `/usr/games`, where Debian installs games, because
/// root's PATH often lacks it.
fn on_path(name: &str) -> Option<PathBuf> {
    let mut path = env::var_os("PATH").unwrap_or_default();
    path.push(OsString::from(":/usr/games"));
    let mut files = env::split_paths(&path).map(|folder| folder.join(name));
    files.find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Catalogue;

    #[test]
    fn the_demos_applications_are_all_right() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("applications.toml");
        fs::write(&file, applications(Path::new("/a \"b\"/openuvr"))).unwrap();
        let read = Catalogue::new(file).current();
        assert_eq!(read.problems, [""; 0]);
        assert_eq!(read.all[0].command, ["/a \"b\"/openuvr", "scene"]);
    }
}
