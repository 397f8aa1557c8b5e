//! `--rtsp`: the server for video players, and what the person is told of it.

use std::sync::Arc;

use anyhow::{Result, anyhow};
use openuvr_gateway::rtsp::{RtspServer, RtspSetup, Token};
use openuvr_runtime::host::GatewayHost;
use openuvr_runtime::sched::Scheduler;

use super::url::authority;
use crate::config::HostConfig;

/// A server, and the URLs that lead to it.
pub(super) struct Players {
    server: RtspServer,
    token: Token,
}

/// Opens it, if that is wanted; `sound`: the host has some.
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
pub(super) fn tell(who: &str, players: &Players, name: &str) {
    eprintln!(
        "openuvr {who}: video players: rtsp://{}/{}",
        authority(players.server.address(), name),
        players.token.as_str()
    );
}
