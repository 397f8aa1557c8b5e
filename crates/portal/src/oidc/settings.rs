//! The table `[oidc]` of the configuration.

use std::path::PathBuf;

use serde::Deserialize;

use super::http::is_secure;

/// The longest name of a provider that the page shows, in characters; a guess.
const MAX_TITLE: usize = 40;

/// A provider of OpenID Connect, and whom of it the portal lets in.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OidcSection {
    /// Its address, as its own description says it (`issuer`).
    pub(crate) issuer: String,
    /// What the portal is called there.
    pub(crate) client_id: String,
    /// The file with the portal's secret there; none: the portal is a public client.
    #[serde(default)]
    pub(crate) client_secret_file: Option<PathBuf>,
    /// The portal's own address, as browsers have it. The provider sends people back to
    /// `ADDRESS/api/oidc/callback`.
    pub(crate) address: String,
    /// What the button on the page says.
    #[serde(default = "title")]
    pub(crate) title: String,
    /// The claim that becomes the name of a new account.
    #[serde(default = "name_claim")]
    pub(crate) name_claim: String,
    /// The claim that says what groups the person is in: a text, or a list of texts.
    #[serde(default = "group_claim")]
    pub(crate) group_claim: String,
    /// Who is in this group is an operator, and nobody else is who comes by the provider. None: roles are those
    /// of `openuvr portal user`.
    #[serde(default)]
    pub(crate) operators: Option<String>,
    /// Only who is in this group, or is an operator, gets in. None: whom the provider lets in.
    #[serde(default)]
    pub(crate) users: Option<String>,
    /// Who has no account gets one.
    #[serde(default)]
    pub(crate) create: bool,
    /// What the provider is asked to tell, beside `openid`.
    #[serde(default = "scopes")]
    pub(crate) scopes: Vec<String>,
    /// Hours that a log-in lives before the provider is asked again.
    #[serde(default = "hours")]
    pub(crate) hours: u32,
    /// Certificates of authorities that are trusted beside the system's, in PEM form.
    #[serde(default)]
    pub(crate) ca: Option<PathBuf>,
}

fn title() -> String {
    "OpenID Connect".to_owned()
}

fn name_claim() -> String {
    "preferred_username".to_owned()
}

fn group_claim() -> String {
    "groups".to_owned()
}

fn scopes() -> Vec<String> {
    vec!["profile".to_owned()]
}

fn hours() -> u32 {
    24
}

impl OidcSection {
    /// What does not go together, in one line.
    ///
    /// # Errors
    /// Something does not.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (key, url) in [("issuer", &self.issuer), ("address", &self.address)] {
            let secure = url.parse().ok().and_then(|uri| is_secure(&uri));
            if secure.is_none() {
                return Err(format!(
                    "oidc.{key} is {url:?}: it begins with https://, or with http:// and a name of this machine"
                ));
            }
        }
        if self.address.trim_end_matches('/').matches('/').count() != 2 {
            return Err(format!(
                "oidc.address is {:?}: it is the portal's address without a path, as https://play.example.org",
                self.address
            ));
        }
        if self.title.is_empty() || self.title.chars().count() > MAX_TITLE {
            return Err(format!("oidc.title has 1 to {MAX_TITLE} characters"));
        }
        if self.client_id.is_empty() {
            return Err("oidc.client_id is empty: the provider says what it is".to_owned());
        }
        if self.hours == 0 {
            return Err("oidc.hours is 0: nobody would stay logged in".to_owned());
        }
        Ok(())
    }

    /// Where the provider sends people back to.
    pub(super) fn callback(&self) -> String {
        format!("{}/api/oidc/callback", self.address.trim_end_matches('/'))
    }
}
