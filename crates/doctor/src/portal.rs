//! The portals of a desktop (xdg-desktop-portal). If the compositor has no capture protocol, a host captures the
//! desktop through these portals.

/// The features that the portals offer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Offer {
    /// Whether the pointer is sent separately from the picture.
    pub(super) pointer_apart: bool,
    /// Whether input is accepted.
    pub(super) input: bool,
}

/// Queries the portals of this D-Bus session.
///
/// # Errors
/// Returns a one-line error with the missing part, and the remedy after the last colon.
#[cfg(feature = "desktop-portal")]
pub(super) fn probe() -> Result<Offer, String> {
    let portals = openuvr_desktop_portal::Portals::probe(None).map_err(|why| why.to_string())?;
    Ok(Offer {
        pointer_apart: portals.pointer_apart,
        input: portals.remote_desktop.is_some(),
    })
}

/// Returns an error, because this program was built without support for portals.
#[cfg(not(feature = "desktop-portal"))]
pub(super) fn probe() -> Result<Offer, String> {
    Err(
        "this program was built without support for desktop portals: build it with the feature \
         desktop-portal"
            .to_owned(),
    )
}
