//! Converts notices of the runtime to log lines and statistics.

use std::collections::VecDeque;
use std::sync::Mutex;

use openuvr_proto::control::negotiate::Role;
use openuvr_proto::controller::Haptic;
use openuvr_proto::host::Ending;
use openuvr_proto::trace::{Fidelity, Outcome as Fate};
use openuvr_proto::wire::control::GoodbyeReason;
use openuvr_runtime::client::{Notice as ClientNotice, StopReason};
use openuvr_runtime::host::Notice;
use openuvr_runtime::lock::lock;

use crate::app_presenter::Pictures;
use crate::log::{Log, OPENUVR_LOG_LEVEL};
use crate::statistics::OPENUVR_MUD_STATE::*;
use crate::statistics::openuvr_mud_statistics;

/// The log line of a host's notice.
pub(crate) fn line(notice: &Notice) -> Option<(OPENUVR_LOG_LEVEL, String)> {
    use OPENUVR_LOG_LEVEL::*;
    Some(match notice {
        Notice::Paired { name, fingerprint } => (
            OPENUVR_LOG_INFO,
            format!("paired with {name} ({fingerprint})"),
        ),
        Notice::Pairing(words) => (OPENUVR_LOG_WARNING, words.clone()),
        Notice::Subscribed {
            role,
            name,
            software,
            ..
        } => (
            OPENUVR_LOG_INFO,
            match software.as_str() {
                "" => format!("{name} joins as {}", role.name()),
                _ => format!("{name} joins as {} ({software})", role.name()),
            },
        ),
        Notice::RoleChanged(_, role) => {
            (OPENUVR_LOG_INFO, format!("a client is now {}", role.name()))
        }
        Notice::Link(_, transport) => (
            OPENUVR_LOG_INFO,
            format!("a client receives the video by transport {}", transport.name()),
        ),
        Notice::Ended(_, ending) => (
            OPENUVR_LOG_INFO,
            format!("a client is gone: {}", ending_text(*ending)),
        ),
        Notice::Resized(size) => (OPENUVR_LOG_INFO, format!("the picture is {size}")),
        Notice::ControlEvent { event, .. } => (OPENUVR_LOG_DEBUG, event.to_string()),
        Notice::EncoderOpened {
            rendition,
            encoder,
            size,
        } => (
            OPENUVR_LOG_INFO,
            format!("{rendition}: opened {encoder} for {size}"),
        ),
        Notice::EncoderClosed(rendition) => (
            OPENUVR_LOG_INFO,
            format!("{rendition}: closed the encoder"),
        ),
        Notice::SourceEnded(why) => (OPENUVR_LOG_ERROR, why.to_string()),
        Notice::Failed(why) => (OPENUVR_LOG_ERROR, why.clone()),
        Notice::Clipboard(words) | Notice::Sound(words) => (OPENUVR_LOG_INFO, words.clone()),
        Notice::Warning(why) => (OPENUVR_LOG_WARNING, why.clone()),
        Notice::NoPicture => (
            OPENUVR_LOG_WARNING,
            "a MUD is waiting, but no picture has been submitted yet: call openuvr_frame_ready after each \
             glReadPixels, or use openuvr_send_frame, openuvr_capture_gl or openuvr_send_picture"
                .to_owned(),
        ),
        Notice::InputWithheld(Some(why)) => (
            OPENUVR_LOG_WARNING,
            format!("keys and clicks are withheld from the window: {why}"),
        ),
        Notice::InputWithheld(None) => (
            OPENUVR_LOG_INFO,
            "keys and clicks reach the window again".to_owned(),
        ),
        Notice::Lost(notices) => (
            OPENUVR_LOG_WARNING,
            format!("{notices} events were not logged: this machine could not keep up"),
        ),
        Notice::PlayerWindow(_) | Notice::SourceShown(_) | Notice::Record(_) | Notice::Audio(..) => {
            return None;
        }
    })
}

/// Why a client left, in words.
fn ending_text(ending: Ending) -> String {
    match ending {
        Ending::Goodbye(reason) => match reason {
            GoodbyeReason::Quit => "it disconnected",
            GoodbyeReason::SourceEnded => "the application has ended",
            GoodbyeReason::TakenOver => "another client took over",
            GoodbyeReason::Forbidden => "the host forbids the device",
            GoodbyeReason::Failed => "it failed",
        }
        .to_owned(),
        Ending::Silent => "no more packets received".to_owned(),
        Ending::Replaced => "it started a new session".to_owned(),
        Ending::Refused(why) => format!("it was refused: {why}"),
        Ending::Closed => "closed by this host".to_owned(),
    }
}

/// The state that the threads of a MUD have reported.
#[derive(Default)]
pub(crate) struct MudState {
    pub(crate) statistics: openuvr_mud_statistics,
    pub(crate) end: Option<String>,
    /// Haptics that the application has not retrieved yet.
    pub(crate) haptics: VecDeque<Haptic>,
}

/// The maximum number of pending haptics. If there are more, the oldest are dropped.
const MAX_HAPTICS: usize = 64;

/// Updates the state with a MUD's notice, and logs it.
pub(crate) fn record(
    state: &Mutex<MudState>,
    pictures: &Pictures,
    log: &Log,
    notice: ClientNotice,
) {
    let line = update(&mut lock(state), pictures, notice);
    // The callback may be slow, so it is not called under the lock.
    if let Some((level, line)) = line {
        log.write(level, &line);
    }
}

/// Updates the state with a notice, and returns its log line.
fn update(
    state: &mut MudState,
    pictures: &Pictures,
    notice: ClientNotice,
) -> Option<(OPENUVR_LOG_LEVEL, String)> {
    use OPENUVR_LOG_LEVEL::*;
    let statistics = &mut state.statistics;
    Some(match notice {
        ClientNotice::Connected {
            paired,
            fingerprint,
            ..
        } => {
            let how = if paired {
                "paired with"
            } else {
                "connected to"
            };
            (OPENUVR_LOG_INFO, format!("{how} the host {fingerprint}"))
        }
        ClientNotice::Granted {
            role,
            host,
            observer_reason,
        } => {
            statistics.state = match role {
                Role::Player => OPENUVR_MUD_PLAYING,
                Role::Observer => OPENUVR_MUD_OBSERVING,
            } as u32;
            let why = observer_reason.map_or(String::new(), |why| format!("; {why}"));
            (OPENUVR_LOG_INFO, format!("{} at {host}{why}", role.name()))
        }
        ClientNotice::Link(transport) => (
            OPENUVR_LOG_INFO,
            format!("video transport: {}", transport.name()),
        ),
        ClientNotice::Volume(percent) => (OPENUVR_LOG_INFO, format!("sound at {percent} %")),
        ClientNotice::EyeView(view) => (OPENUVR_LOG_INFO, format!("showing {}", view.name())),
        ClientNotice::ReprojectionCost(re_aimed) => (OPENUVR_LOG_INFO, re_aimed.to_string()),
        ClientNotice::Keys(keys) => (OPENUVR_LOG_INFO, format!("keyboard mode: {}", keys.name())),
        ClientNotice::Showing(size) => {
            (statistics.width, statistics.height) = (size.width, size.height);
            (OPENUVR_LOG_INFO, format!("showing {size}"))
        }
        ClientNotice::Haptic(haptic) => {
            if state.haptics.len() == MAX_HAPTICS {
                state.haptics.pop_front();
            }
            state.haptics.push_back(haptic);
            return None;
        }
        ClientNotice::SourceShown(shown) => (
            OPENUVR_LOG_INFO,
            match shown {
                true => "the window is visible again at the host",
                false => "the window is hidden at the host: the stream is paused",
            }
            .to_owned(),
        ),
        ClientNotice::Report(report) => {
            statistics.frames += 1;
            match report.outcome {
                Fate::Displayed(Fidelity::Complete) => statistics.complete += 1,
                Fate::Displayed(_) => statistics.damaged += 1,
                Fate::Dropped { .. } => statistics.dropped += 1,
                // This outcome does not occur at a MUD, because a MUD displays its frames.
                Fate::SentUnacknowledged => {}
            }
            return None;
        }
        ClientNotice::Audio(_) => return None,
        ClientNotice::Lost(_) => {
            statistics.state = OPENUVR_MUD_CONNECTING as u32;
            let line = "connection to the host lost; reconnecting";
            (OPENUVR_LOG_WARNING, line.to_owned())
        }
        ClientNotice::Clipboard(words) | ClientNotice::Sound(words) => (OPENUVR_LOG_INFO, words),
        ClientNotice::Pad(name, there) => {
            let how = if there { "plugged in" } else { "unplugged" };
            (OPENUVR_LOG_INFO, format!("gamepad {name} {how}"))
        }
        ClientNotice::Warning(why) => (OPENUVR_LOG_WARNING, why),
        ClientNotice::StopReason(over) => {
            statistics.state = OPENUVR_MUD_ENDED as u32;
            let (level, line) = end(over);
            state.end = Some(line.clone());
            pictures.end();
            (level, line)
        }
    })
}

/// The log line for the end of the stream.
fn end(over: StopReason) -> (OPENUVR_LOG_LEVEL, String) {
    use OPENUVR_LOG_LEVEL::*;
    match over {
        StopReason::Quit => (OPENUVR_LOG_INFO, "the user closed the window".to_owned()),
        StopReason::Host(reason) => {
            let why = match reason {
                GoodbyeReason::Quit => "the host has stopped",
                GoodbyeReason::SourceEnded => "the application has ended",
                GoodbyeReason::TakenOver => "another client took over",
                GoodbyeReason::Forbidden => "the host forbids this device",
                GoodbyeReason::Failed => "the host failed; see its messages",
            };
            (
                OPENUVR_LOG_INFO,
                format!("the host ended the session: {why}"),
            )
        }
        StopReason::Handshake(e) => (OPENUVR_LOG_ERROR, e.to_string()),
        StopReason::Refused(why) => (OPENUVR_LOG_ERROR, why.to_string()),
        StopReason::Failed(why) => (OPENUVR_LOG_ERROR, why),
    }
}
