//! The demo's client, with a window like that of `openuvr client`. It runs in this process, which also simulates the
//! head.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use openuvr_media::present::{self, x11::WindowConfig};
use openuvr_proto::id::PoseId;
use openuvr_proto::time::Instant;
use openuvr_proto::trace::{Fidelity, Outcome};
use openuvr_proto::wire::control::Report;
use openuvr_proto::wire::video::Configuration;
use openuvr_runtime::client::{
    self, ClientRuntime, ClientSetup, Notice, Reproject, StereoSettings, Target,
};

use openuvr_testbed::pair::Host;

/// The client's report of a frame.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct DisplayedFrame {
    /// Whether the frame was displayed completely.
    pub(super) whole: bool,
    /// When the frame was submitted to the display.
    pub(super) submitted: Option<Instant>,
    /// The pose with which it was drawn.
    pub(super) pose: Option<PoseId>,
}

impl DisplayedFrame {
    fn from(report: &Report) -> DisplayedFrame {
        // The report's times are on this client's clock, so no conversion is needed.
        let submitted = (report.first_received.zip(report.submitted))
            .map(|(from, span)| Instant(from.0) + span);
        DisplayedFrame {
            whole: report.outcome == Outcome::Displayed(Fidelity::Complete),
            submitted,
            pose: report.pose,
        }
    }
}

/// Connects to `host` and shows its pictures on `display`. The client's keys are in `dir`.
pub(super) fn start(host: &Host, display: &str, dir: &Path) -> Result<Arc<ClientRuntime>> {
    let target: Target = host.at.to_string().parse().map_err(|e| anyhow!("{e}"))?;
    let config = client::config::Config {
        pin: Some(host.pin.clone()),
        config_dir: Some(dir.to_owned()),
        sound: "off".to_owned(),
        ..client::config::Config::new(target)
    };
    let opened = config.open().map_err(|e| anyhow!(e))?;
    let display = display.to_owned();
    let surface = Box::new(move |stream: Configuration, title: &str, _| {
        present::open(
            "x11",
            &WindowConfig {
                display: Some(display.clone()),
                title: title.to_owned(),
                size: stream.size,
                ..WindowConfig::default()
            },
        )
    });
    let setup = ClientSetup {
        // Reprojection would move the bar codes.
        eyes: StereoSettings {
            reproject: Reproject::Off,
            ..StereoSettings::default()
        },
        ..opened.setup(surface, config.scheduler())
    };
    let client = ClientRuntime::start(setup).map_err(|e| anyhow!(e))?;
    Ok(Arc::new(client))
}

/// The client's frame reports since the last call. Waits for at most `timeout`.
///
/// # Errors
/// Returns an error if the client has ended.
pub(super) fn frame_reports(
    client: &ClientRuntime,
    timeout: Duration,
) -> Result<Vec<DisplayedFrame>> {
    let mut shown = Vec::new();
    let mut wait = timeout;
    while let Some(notice) = client.notice(wait) {
        wait = Duration::ZERO;
        match notice {
            Notice::Report(report) => shown.push(DisplayedFrame::from(&report)),
            Notice::StopReason(why) => bail!("the client has ended: {why:?}"),
            Notice::Warning(why) => eprintln!("demo: the client: {why}"),
            _ => {}
        }
    }
    Ok(shown)
}
