//! The negotiation with the portals, and the session that they grant.

use std::os::fd::OwnedFd;
use std::pin::Pin;

use ashpd::desktop::remote_desktop::{
    Axis, DeviceType, KeyState, RemoteDesktop, SelectDevicesOptions,
};
use ashpd::desktop::screencast::{
    CursorMode, Screencast, SelectSourcesOptions, SourceType, Stream as PortalStream,
};
use ashpd::desktop::{PersistMode, Session};
use futures_util::{Stream, StreamExt as _};
use openuvr_proto::units::Size;

use super::command::{Command, Permitted, Wheel};
use super::error::PortalError;
use super::{Options, token};

/// The first versions of ScreenCast and of RemoteDesktop in which permissions can be stored.
const SCREEN_CAST_KEEPS: u32 = 4;
const REMOTE_DESKTOP_KEEPS: u32 = 2;

/// The size that is offered first if the portal states none. Any other size is accepted, too.
const USUAL_SIZE: Size = Size::new(1920, 1080);

/// The parts of a granted session.
pub(crate) struct Grant {
    /// A connection to the PipeWire server, through which only this stream is visible.
    pub(crate) remote: OwnedFd,
    /// The number of the stream's node.
    pub(crate) node: u32,
    /// The size of the stream in the desktop's units. Absolute positions are expressed in the same units.
    pub(crate) extent: Option<Size>,
    /// The probable size of the picture.
    pub(crate) hint: Size,
    /// Whether the pointer is sent separately from the picture.
    pub(crate) cursor: bool,
    /// The input that the session accepts.
    pub(crate) permitted: Permitted,
}

/// A session of one of the portals.
pub(super) enum Granted {
    /// With input.
    Remote(RemoteDesktop, Session<RemoteDesktop>),
    /// Only with pictures.
    Cast(Session<Screencast>),
}

/// Requests the screen. Also requests input if the options include it and there is a portal for it.
pub(super) async fn negotiate(options: &Options) -> Result<(Granted, Grant), PortalError> {
    let bus = super::connect(options.bus.as_deref()).await?;
    let asking = |cause: ashpd::Error| PortalError::of("being asked", &cause);
    let casts = Screencast::with_connection(bus.clone())
        .await
        .map_err(asking)?;
    let kinds = casts.available_source_types().await.map_err(asking)?;
    let modes = match casts.version() {
        0 | 1 => CursorMode::Hidden.into(),
        _ => casts.available_cursor_modes().await.map_err(asking)?,
    };
    let mode = match options.cursor {
        true if modes.contains(CursorMode::Metadata) => CursorMode::Metadata,
        true if modes.contains(CursorMode::Embedded) => CursorMode::Embedded,
        _ => CursorMode::Hidden,
    };
    // A desktop may lack the RemoteDesktop portal. In that case, the session has only pictures.
    let remote = match options.input {
        true => RemoteDesktop::with_connection(bus).await.ok(),
        false => None,
    };
    // One source is requested. It is a window only if the desktop cannot share a screen.
    let sources = match kinds.contains(SourceType::Monitor) {
        true => SourceType::Monitor.into(),
        false => kinds,
    };
    let select = SelectSourcesOptions::default()
        .set_sources(sources)
        .set_multiple(false)
        .set_cursor_mode((casts.version() >= 2).then_some(mode));
    let permission = options.permission.as_deref();
    let kept = permission.and_then(token::load);
    let (granted, stream, next) = match remote {
        Some(remote) => {
            with_input(
                remote,
                &casts,
                select,
                permission.is_some(),
                kept.as_deref(),
            )
            .await?
        }
        None => pictures(&casts, select, permission.is_some(), kept.as_deref()).await?,
    };
    if let (Some(file), Some(next)) = (permission, &next.token)
        && let Err(why) = token::save(file, next)
    {
        tracing::warn!("{why}");
    }
    let opening = |cause: ashpd::Error| PortalError::of("opening PipeWire", &cause);
    let remote = match &granted {
        Granted::Remote(_, session) => {
            casts
                .open_pipe_wire_remote(session, Default::default())
                .await
        }
        Granted::Cast(session) => {
            casts
                .open_pipe_wire_remote(session, Default::default())
                .await
        }
    };
    let extent = stream.size().and_then(|(width, height)| {
        let size = Size::new(u32::try_from(width).ok()?, u32::try_from(height).ok()?);
        size.is_valid().then_some(size)
    });
    let grant = Grant {
        remote: remote.map_err(opening)?,
        node: stream.pipe_wire_node_id(),
        extent,
        hint: extent.unwrap_or(USUAL_SIZE),
        cursor: mode == CursorMode::Metadata,
        permitted: next.permitted,
    };
    Ok((granted, grant))
}

/// The user's permissions in addition to the pictures.
struct Allowed {
    token: Option<String>,
    permitted: Permitted,
}

async fn with_input(
    remote: RemoteDesktop,
    casts: &Screencast,
    select: SelectSourcesOptions,
    keep: bool,
    kept: Option<&str>,
) -> Result<(Granted, PortalStream, Allowed), PortalError> {
    let starting = |cause: ashpd::Error| PortalError::of("starting a session", &cause);
    let session = remote
        .create_session(Default::default())
        .await
        .map_err(starting)?;
    let mut devices =
        SelectDevicesOptions::default().set_devices(DeviceType::Keyboard | DeviceType::Pointer);
    // In earlier versions, the permission for a session with input cannot be stored: the portal refuses the option.
    if keep && remote.version() >= REMOTE_DESKTOP_KEEPS {
        devices = devices
            .set_persist_mode(PersistMode::ExplicitlyRevoked)
            .set_restore_token(kept);
    }
    let request = remote.select_devices(&session, devices).await;
    request
        .and_then(|request| request.response())
        .map_err(starting)?;
    let request = casts.select_sources(&session, select).await;
    request
        .and_then(|request| request.response())
        .map_err(starting)?;
    let request = remote.start(&session, None, Default::default()).await;
    let answer = request
        .and_then(|request| request.response())
        .map_err(starting)?;
    let allowed = Allowed {
        token: answer.restore_token().map(str::to_owned),
        permitted: Permitted {
            keyboard: answer.devices().contains(DeviceType::Keyboard),
            pointer: answer.devices().contains(DeviceType::Pointer),
        },
    };
    let stream = first(answer.streams())?;
    Ok((Granted::Remote(remote, session), stream, allowed))
}

async fn pictures(
    casts: &Screencast,
    mut select: SelectSourcesOptions,
    keep: bool,
    kept: Option<&str>,
) -> Result<(Granted, PortalStream, Allowed), PortalError> {
    let starting = |cause: ashpd::Error| PortalError::of("starting a session", &cause);
    let session = casts
        .create_session(Default::default())
        .await
        .map_err(starting)?;
    if keep && casts.version() >= SCREEN_CAST_KEEPS {
        select = select
            .set_persist_mode(PersistMode::ExplicitlyRevoked)
            .set_restore_token(kept);
    }
    let request = casts.select_sources(&session, select).await;
    request
        .and_then(|request| request.response())
        .map_err(starting)?;
    let request = casts.start(&session, None, Default::default()).await;
    let answer = request
        .and_then(|request| request.response())
        .map_err(starting)?;
    let allowed = Allowed {
        token: answer.restore_token().map(str::to_owned),
        permitted: Permitted {
            keyboard: false,
            pointer: false,
        },
    };
    let stream = first(answer.streams())?;
    Ok((Granted::Cast(session), stream, allowed))
}

fn first(streams: &[PortalStream]) -> Result<PortalStream, PortalError> {
    streams.first().cloned().ok_or_else(|| {
        PortalError::new(
            "the desktop's user has shared no screen: start the host again and choose one",
        )
    })
}

impl Granted {
    /// A stream with one item, which arrives when the desktop ends the session.
    pub(super) async fn closed(&self) -> Result<Pin<Box<dyn Stream<Item = ()> + '_>>, PortalError> {
        let watching = |cause: ashpd::Error| PortalError::of("being watched", &cause);
        Ok(match self {
            Granted::Remote(_, session) => {
                Box::pin(session.receive_closed().await.map_err(watching)?.map(drop))
            }
            Granted::Cast(session) => {
                Box::pin(session.receive_closed().await.map_err(watching)?.map(drop))
            }
        })
    }

    /// Ends the session.
    pub(super) async fn close(&self) -> Result<(), ashpd::Error> {
        match self {
            Granted::Remote(_, session) => session.close().await,
            Granted::Cast(session) => session.close().await,
        }
    }

    /// Performs an input event.
    pub(super) async fn perform(&self, command: Command) -> Result<(), ashpd::Error> {
        match self {
            Granted::Remote(remote, session) => perform(remote, session, command).await,
            Granted::Cast(_) => Ok(()),
        }
    }
}

async fn perform(
    remote: &RemoteDesktop,
    session: &Session<RemoteDesktop>,
    command: Command,
) -> Result<(), ashpd::Error> {
    let state = |pressed| match pressed {
        true => KeyState::Pressed,
        false => KeyState::Released,
    };
    match command {
        Command::Key(code, pressed) => {
            let state = state(pressed);
            remote
                .notify_keyboard_keycode(session, code, state, Default::default())
                .await
        }
        Command::Symbol(symbol, pressed) => {
            let state = state(pressed);
            remote
                .notify_keyboard_keysym(session, symbol, state, Default::default())
                .await
        }
        Command::Button(code, pressed) => {
            let state = state(pressed);
            remote
                .notify_pointer_button(session, code, state, Default::default())
                .await
        }
        Command::Move(dx, dy) => {
            remote
                .notify_pointer_motion(session, dx, dy, Default::default())
                .await
        }
        Command::MoveTo(node, x, y) => {
            remote
                .notify_pointer_motion_absolute(session, node, x, y, Default::default())
                .await
        }
        Command::Wheel(Wheel::Smooth(dx, dy)) => {
            remote
                .notify_pointer_axis(session, dx, dy, Default::default())
                .await
        }
        Command::Wheel(Wheel::Notches(right, down)) => {
            for (axis, steps) in [(Axis::Horizontal, right), (Axis::Vertical, down)] {
                if steps != 0 {
                    let options = Default::default();
                    remote
                        .notify_pointer_axis_discrete(session, axis, steps, options)
                        .await?;
                }
            }
            Ok(())
        }
        Command::Flush(done) => {
            // An error is ignored, because the caller may have stopped waiting.
            let _ = done.try_send(());
            Ok(())
        }
    }
}
