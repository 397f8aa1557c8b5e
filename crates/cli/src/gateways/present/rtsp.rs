//! `--rtsp`: the server for video players and its messages.

use std::sync::Arc;

use anyhow::{Result, anyhow};
use openuvr_gateway::rtsp::{RtspServer, RtspSetup, Token};
use openuvr_runtime::host::GatewayHost;
use openuvr_runtime::sched::Scheduler;

use super::sound::check_codec;
use super::url::authority;
use crate::config::HostConfig;

/// A server and the token of its URLs.
pub(super) struct Players {
    server: RtspServer,
    token: Token,
}

/// Starts the server, if configured. `sound` is whether the host has sound.
pub(super) fn open(
    config: &HostConfig,
    host: &Arc<dyn GatewayHost>,
    scheduler: &Scheduler,
    sound: bool,
) -> Result<Option<Players>> {
    let Some(bind) = config.rtsp else {
        return Ok(None);
    };
    let token = match &config.rtsp_token {
        Some(text) => text.parse().map_err(|e| anyhow!("--rtsp-token: {e}"))?,
        None => Token::kept_in(&config.config_dir).map_err(|e| anyhow!("--rtsp: {e}"))?,
    };
    check_codec(sound, config.rtsp_sound).map_err(|why| anyhow!("--rtsp-sound: {why}"))?;
    let setup = RtspSetup {
        bind,
        token: token.clone(),
        name: config.name.clone(),
        sound: sound.then_some(config.rtsp_sound),
    };
    let server =
        RtspServer::start(setup, host.clone(), scheduler).map_err(|e| anyhow!("--rtsp: {e}"))?;
    Ok(Some(Players { server, token }))
}

/// Prints the URL for video players.
pub(super) fn print_address(subcommand: &str, players: &Players, name: &str) {
    eprintln!(
        "openuvr {subcommand}: video players: rtsp://{}/{}",
        authority(players.server.address(), name),
        players.token.as_str()
    );
}
