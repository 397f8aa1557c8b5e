//! The command line and environment of a session's host.

use std::process::Command;

use openuvr_proto::units::Size;

use super::folder::{SaveFolder, SessionFolder};
use super::{Args, CaptureMethod};
use crate::report;

/// Variables that could lead an application to folders outside its home directory, and the values that are set here,
/// relative to the home directory.
const FOLDERS: [(&str, &str); 4] = [
    ("XDG_CONFIG_HOME", ".config"),
    ("XDG_DATA_HOME", ".local/share"),
    ("XDG_STATE_HOME", ".local/state"),
    ("XDG_CACHE_HOME", ".cache"),
];

/// Adds the host's arguments, without the application.
pub(super) fn add_arguments(args: &Args, folder: &SessionFolder, command: &mut Command) {
    let (role, display) = match args.capture {
        CaptureMethod::Screen => ("host", Some(args.size)),
        CaptureMethod::Run | CaptureMethod::Api => ("run", None),
        CaptureMethod::Xr => ("xr", None),
    };
    // With port 0, the host and the page use any free ports. Otherwise, the page's port is the next one after the
    // host's. The page's port is reported in either case.
    let mut page = args.listen;
    page.set_port(match args.listen.port() {
        0 => 0,
        port => port.saturating_add(1),
    });
    command
        .arg(role)
        .args([
            "--config",
            "/dev/null",
            "--discoverable=false",
            "--table=off",
        ])
        .args(["--second-player", "take-over"])
        .arg(format!("--bind={}", args.listen))
        .arg(format!("--web={page}"))
        .arg(format!("--ticket-key={}", args.ticket_key))
        .arg(format!("--ticket-session={}", args.id))
        .arg(format!("--lease={}s", args.lease))
        .arg(match args.portal_socket {
            true => format!("--portal-socket={}", folder.socket().display()),
            false => "--portal-only".to_owned(),
        })
        .arg("--config-dir")
        .arg(folder.keys());
    if let Some(address) = args.announced_address() {
        command.arg(format!("--public-address={address}"));
    }
    if args.capture == CaptureMethod::Api {
        command.arg("--api");
    }
    if let Some(Size { width, height }) = display {
        command.arg(format!("--virtual={width}x{height}"));
        command.arg(format!("--place={}", args.place));
        command.arg(format!("--virtual-with={}", args.virtual_with.name()));
    }
    if let Some(fps) = args.fps {
        command.arg(format!("--fps={fps}"));
    }
}

/// Sets the environment of the host. The application inherits it.
pub(super) fn set_environment(
    args: &Args,
    folder: &SessionFolder,
    saves: &SaveFolder,
    display: Option<&str>,
    command: &mut Command,
) {
    let home = saves.home();
    command
        .env(report::FOLDER, folder.path())
        .env(report::PARENT, std::process::id().to_string())
        .env("OPENUVR_USER", &args.user)
        .env("OPENUVR_SESSION", args.id.to_string())
        .env("HOME", home)
        .env("TMPDIR", folder.temporary())
        .current_dir(home);
    for (variable, inside) in FOLDERS {
        command.env(variable, home.join(inside));
    }
    if let Some(display) = display {
        command.env("DISPLAY", display);
        command.env_remove("WAYLAND_DISPLAY");
    }
}
