//! The table `[oidc]` of the configuration.

use std::path::PathBuf;

use serde::Deserialize;

use super::http::is_secure;

/// Maximum length of a provider's title in characters; a guess.
const MAX_TITLE: usize = 40;

/// An OpenID Connect provider, and the rights of its users.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OidcSection {
    /// The provider's issuer URL, exactly as in the provider's metadata.
    pub(crate) issuer: String,
    /// The portal's client id.
    pub(crate) client_id: String,
    /// File that contains the client secret; `None` if the portal is a public client.
    #[serde(default)]
    pub(crate) client_secret_file: Option<PathBuf>,
    /// The portal's URL, as browsers use it. The redirect URL is `ADDRESS/api/oidc/callback`.
    pub(crate) address: String,
    /// The provider's name on the page's log-in button.
    #[serde(default = "title")]
    pub(crate) title: String,
    /// The claim that contains the name of a new account.
    #[serde(default = "name_claim")]
    pub(crate) name_claim: String,
    /// The claim that contains the user's groups: a string, or a list of strings.
    #[serde(default = "group_claim")]
    pub(crate) group_claim: String,
    /// Members of this group are operators. With `None`, `openuvr portal user` sets the roles.
    #[serde(default)]
    pub(crate) operators: Option<String>,
    /// Only members of this group and operators have access. With `None`, all users of the provider have access.
    #[serde(default)]
    pub(crate) users: Option<String>,
    /// Whether the portal creates missing accounts of users.
    #[serde(default)]
    pub(crate) create: bool,
    /// Requested scopes in addition to `openid`.
    #[serde(default = "scopes")]
    pub(crate) scopes: Vec<String>,
    /// Lifetime of a log-in in hours. After this time, the user must log in at the provider again.
    #[serde(default = "hours")]
    pub(crate) hours: u32,
    /// PEM file with certificates of authorities that are trusted in addition to the system's authorities.
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
    /// Validates the settings.
    ///
    /// # Errors
    /// Returns the problem, in one line.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (key, url) in [("issuer", &self.issuer), ("address", &self.address)] {
            let secure = url.parse().ok().and_then(|uri| is_secure(&uri));
            if secure.is_none() {
                return Err(format!(
                    "oidc.{key} is {url:?}: it must begin with https://, or with http://localhost, http://127.0.0.1 or http://[::1]"
                ));
            }
        }
        if self.address.trim_end_matches('/').matches('/').count() != 2 {
            return Err(format!(
                "oidc.address is {:?}: it must be the portal's URL without a path, such as https://play.example.org",
                self.address
            ));
        }
        if self.title.is_empty() || self.title.chars().count() > MAX_TITLE {
            return Err(format!("oidc.title must have 1 to {MAX_TITLE} characters"));
        }
        if self.client_id.is_empty() {
            return Err(
                "oidc.client_id is empty: set it to the id that the provider gave the portal"
                    .to_owned(),
            );
        }
        if self.hours == 0 {
            return Err("oidc.hours must be greater than 0".to_owned());
        }
        Ok(())
    }

    /// The redirect URL.
    pub(super) fn callback(&self) -> String {
        format!("{}/api/oidc/callback", self.address.trim_end_matches('/'))
    }
}
