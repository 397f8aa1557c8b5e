//! Settings for portals: the portal's address, its certificate's fingerprint, and a session's link.

use openuvr_pinning::CertificateHash;
pub(crate) use openuvr_portal_client::PortalAddress;
use openuvr_runtime::client::Target;
use openuvr_runtime::client::config::PortalCredentials;
use openuvr_runtime::client::link::{PortalLink, SCHEME};

use super::kind::{Form, Kind, target};

/// A portal's address.
pub(super) fn portal() -> Kind<PortalAddress> {
    Kind {
        placeholder: "URL",
        range: String::new(),
        allowed: "a portal's address without a path, such as https://play.example.org or \
                  https://192.168.1.5:8443; http:// only for this machine"
            .to_owned(),
        form: Form::Text,
        parse: Box::new(|text| text.parse().ok()),
        absent: None,
    }
}

/// A certificate's fingerprint.
pub(super) fn fingerprint() -> Kind<CertificateHash> {
    Kind {
        placeholder: "SHA256",
        range: String::new(),
        allowed: "the SHA-256 fingerprint of a certificate: 64 hexadecimal digits, with or without colons"
            .to_owned(),
        form: Form::Text,
        parse: Box::new(|text| text.parse().ok()),
        absent: None,
    }
}

/// A host, optionally with a portal's authorisation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct HostTarget {
    /// The address.
    pub(crate) target: Target,
    /// The host's key and a ticket, if a portal's link contains them.
    pub(crate) word: Option<PortalCredentials>,
}

impl From<Target> for HostTarget {
    fn from(target: Target) -> HostTarget {
        HostTarget { target, word: None }
    }
}

impl From<PortalLink> for HostTarget {
    fn from(
        PortalLink {
            target,
            credentials: word,
        }: PortalLink,
    ) -> HostTarget {
        let word = Some(word);
        HostTarget { target, word }
    }
}

/// A host, or a portal's link to a host.
pub(super) fn host_target() -> Kind<HostTarget> {
    let by_name = target();
    Kind {
        placeholder: by_name.placeholder,
        range: by_name.range,
        allowed: format!("{}, or a portal's complete link", by_name.allowed),
        form: by_name.form,
        parse: Box::new(move |text| match text.starts_with(SCHEME) {
            true => text.parse::<PortalLink>().ok().map(HostTarget::from),
            false => (by_name.parse)(text).map(HostTarget::from),
        }),
        absent: None,
    }
}
