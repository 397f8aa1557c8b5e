//! Why a session cannot be opened: the reason and the remedy, in one line.

use ashpd::desktop::ResponseError;
use openuvr_media::capture::CaptureError;

/// Why the desktop's portal cannot be used, in one line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct PortalError(String);

impl PortalError {
    pub(crate) fn new(why: impl Into<String>) -> PortalError {
        PortalError(why.into())
    }

    pub(super) fn no_bus(cause: &ashpd::zbus::Error) -> PortalError {
        PortalError(format!(
            "the desktop's portal can't be reached: no D-Bus session bus ({}): start the host within the desktop session, \
             where DBUS_SESSION_BUS_ADDRESS is set",
            one_line(cause)
        ))
    }

    pub(super) fn missing(cause: &str) -> PortalError {
        PortalError(format!(
            "the desktop has no portal that shares its screen ({cause}): install xdg-desktop-portal and its backend for \
             this desktop (xdg-desktop-portal-gnome, -kde, -wlr), and check XDG_CURRENT_DESKTOP"
        ))
    }

    pub(super) fn unanswered() -> PortalError {
        PortalError(format!(
            "the desktop's permission dialog for sharing its screen was not answered within {} s: start the host again and \
             answer the dialog at the desktop itself",
            super::ANSWER_WAIT.as_secs()
        ))
    }

    pub(super) fn broken() -> PortalError {
        PortalError(
            "the desktop's portal has stopped: check xdg-desktop-portal, and start the host again"
                .to_owned(),
        )
    }

    /// The error for a request that has failed during `what`.
    pub(super) fn of(what: &str, cause: &ashpd::Error) -> PortalError {
        use ashpd::{Error, PortalError as Refusal};
        match cause {
            Error::Response(ResponseError::Cancelled) => PortalError(
                "the desktop's user has not allowed screen sharing: start the host again and allow it, or stream a single \
                 application (openuvr run, openuvr host --virtual 1280x720 -- COMMAND)"
                    .to_owned(),
            ),
            Error::PortalNotFound(name) => PortalError::missing(&format!("no {name}")),
            Error::Portal(Refusal::ZBus(cause)) | Error::Zbus(cause) if is_absent(cause) => {
                PortalError::missing(&one_line(cause))
            }
            cause => PortalError(format!(
                "the desktop's portal failed while {what}: {}; see the messages of xdg-desktop-portal and its backend for \
                 this desktop",
                one_line(cause)
            )),
        }
    }
}

impl From<CaptureError> for PortalError {
    fn from(error: CaptureError) -> PortalError {
        PortalError(error.0)
    }
}

/// Whether no program owns the portal's name.
fn is_absent(cause: &ashpd::zbus::Error) -> bool {
    let text = cause.to_string();
    ["ServiceUnknown", "NameHasNoOwner", "Spawn"]
        .iter()
        .any(|name| text.contains(name))
}

/// Joins the lines of an error text. The texts of other programs may have several lines.
fn one_line(cause: &dyn std::fmt::Display) -> String {
    let text = cause.to_string();
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use ashpd::zbus;

    use super::*;

    #[test]
    fn each_failure_is_one_line_with_a_remedy() {
        let denied = PortalError::of("starting", &ResponseError::Cancelled.into());
        assert!(denied.to_string().contains("has not allowed"), "{denied}");
        let other = PortalError::of("starting", &ResponseError::Other.into());
        assert!(other.to_string().contains("while starting"), "{other}");
        let absent = zbus::Error::from(zbus::fdo::Error::ServiceUnknown("no\nname".to_owned()));
        let absent = PortalError::of("asking", &absent.into());
        assert!(absent.to_string().contains("install"), "{absent}");
        for error in [
            denied,
            other,
            absent,
            PortalError::unanswered(),
            PortalError::broken(),
        ] {
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }
}
