//! `openuvr host --rtsp`: the server for video players, and what the person is told of it.

use std::net::IpAddr;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use openuvr_gateway::rtsp::{RtspServer, RtspSetup, Token};
use openuvr_runtime::host::HostRuntime;
use openuvr_runtime::sched::Scheduler;

use crate::config::HostConfig;

/// A server, and the URLs that lead to it.
pub(super) struct Players {
    server: RtspServer,
    token: Token,
}

/// Opens it, if that is wanted; `sound`: the host has some.
pub(super) fn open(
    config: &HostConfig,
    host: &Arc<HostRuntime>,
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
    let setup = RtspSetup {
        bind,
        token: token.clone(),
        name: config.name.clone(),
        sound,
    };
    let server =
        RtspServer::start(setup, host.clone(), scheduler).map_err(|e| anyhow!("--rtsp: {e}"))?;
    Ok(Some(Players { server, token }))
}

/// Says what players are to open.
pub(super) fn tell(players: &Players, name: &str) {
    let address = players.server.address();
    let host = match address.ip() {
        // Whoever reads this knows how others call this machine.
        ip if ip.is_unspecified() => name.to_owned(),
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(v6) => format!("[{v6}]"),
    };
    eprintln!(
        "openuvr host: video players: rtsp://{host}:{}/{}",
        address.port(),
        players.token.as_str()
    );
}
