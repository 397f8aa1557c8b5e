//! The portals of a desktop, by which a host captures it where its compositor has no protocol for that.

/// The offer of the portals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Offer {
    /// Whether the pointer comes beside the picture.
    pub(super) pointer_apart: bool,
    /// Whether input is taken.
    pub(super) input: bool,
}

/// Asks the portals of this D-Bus session.
///
/// # Errors
/// One line: the missing part, and the remedy after the last colon.
#[cfg(feature = "desktop-portal")]
pub(super) fn probe() -> Result<Offer, String> {
    let portals = openuvr_desktop_portal::Portals::probe(None).map_err(|why| why.to_string())?;
    Ok(Offer {
        pointer_apart: portals.pointer_apart,
        input: portals.remote_desktop.is_some(),
    })
}

/// This program can't ask them.
#[cfg(not(feature = "desktop-portal"))]
pub(super) fn probe() -> Result<Offer, String> {
    Err("this program was built without the desktop's portals: build it with its feature desktop-portal".to_owned())
}
