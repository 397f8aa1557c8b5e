//! GamingAnywhere in the comparison: its prerequisites, configuration files and command lines.
//!
//! Debian does not package it, and its last commit (2019) does not build with today's libavcodec. The programs must be
//! built by hand (`docs/studies/peers.md`). The configuration is the shipped desktop configuration, except for the few
//! values in this module. The server has no option for its address: it listens on all addresses, and for RTSP over HTTP
//! also on the first free port of 80, 8000 and 8080. Each run leaves a shared memory segment of one picture behind.

use std::path::PathBuf;

/// The environment variable that names the folder with the programs and their folders `mod` and `config`, as `make
/// install` creates it.
pub(super) const FOLDER: &str = "OPENUVR_GAMINGANYWHERE";

pub(super) const PACKAGE: &str =
    "GamingAnywhere (built by hand; OPENUVR_GAMINGANYWHERE names its folder)";

/// The folder; empty without the variable.
pub(super) fn folder() -> PathBuf {
    std::env::var_os(FOLDER).map_or_else(PathBuf::new, PathBuf::from)
}

/// The server's configuration with the shipped rate and bitrate. RTSP uses TCP and input uses UDP, so they can share a
/// port number.
pub(super) const SERVER: &str = "\
include = {gaminganywhere}/config/server.desktop.conf
display = {near}
server-port = {port}
control-port = {port}
enable-audio = false
";

/// Rate, bitrate and x264 preset of the other programs, in addition to [`SERVER`]. On a machine with two cores that
/// also ran the scene, the shipped preset `faster` at 60 pictures a second let the reader see only 34 a second, with a
/// p50 of 192 ms.
pub(super) const SERVER_AS_FAST: &str = "\
include = {dir}/shipped.conf
video-fps = {fps}
video-specific[b] = {kbps}000
video-specific[preset] = ultrafast
";

pub(super) const CLIENT: &str = "\
include = {gaminganywhere}/config/client.abs.conf
control-port = {port}
";

/// The programs find their modules and their font only in the working folder.
pub(super) const SENDER: &str =
    "PWD={gaminganywhere} {gaminganywhere}/ga-server-periodic {dir}/server.conf";
pub(super) const RECEIVER: &str = "SDL_VIDEODRIVER=x11 DISPLAY={far} PWD={gaminganywhere} \
    {gaminganywhere}/ga-client {dir}/client.conf rtsp://127.0.0.1:{port}/desktop";
