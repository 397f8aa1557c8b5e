//! Log-in at a portal. Log-ins are stored in a private file of this user, with a cookie for each portal.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, anyhow, bail};
use openuvr_pinning::CertificateHash;
use openuvr_runtime::store;
use openuvr_terminal::one_line::visible;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::address::PortalAddress;

use super::http::{Credentials, Http};
use super::password::{password, prompt_name};

/// The name of the file in the configuration folder.
const FILE: &str = "portals.json";

/// The maximum size of a cookie in bytes. A portal's log-in cookie has at most 86 bytes, and its device cookie at most
/// 457.
const LONGEST: usize = 512;

/// An account at a portal.
#[derive(Clone, Copy, Debug)]
pub struct Account<'a> {
    /// The portal.
    pub portal: &'a PortalAddress,
    /// The account's name. If `None`, the name of the last log-in is used, or the user is prompted.
    pub user: Option<&'a str>,
    /// The file with the account's password. If `None`, the file set in the environment is used, or the user is
    /// prompted.
    pub password_file: Option<&'a Path>,
    /// The fingerprint of the only accepted certificate. If `None`, the fingerprint of the last log-in is used. Without
    /// such a fingerprint, all certificates that the system trusts are accepted.
    pub fingerprint: Option<CertificateHash>,
    /// The configuration folder, with this client's key and the stored log-ins.
    pub config_dir: &'a Path,
}

/// A log-in at a portal.
pub(super) struct LogIn {
    pub(super) http: Http,
    pub(super) credentials: Credentials,
    /// The account's name.
    pub(super) user: String,
}

/// The part of the portal's response that describes the account.
#[derive(Deserialize)]
struct AccountInfo {
    name: String,
    csrf: String,
}

/// The stored log-in of one portal.
#[derive(Clone, Serialize, Deserialize)]
struct StoredLogIn {
    user: String,
    cookie: String,
    /// A cookie that identifies this client at its next log-in. A client with this cookie is exempt from the rate
    /// limits for unknown clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    device: Option<String>,
    /// The certificate's fingerprint, if the user has specified one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fingerprint: Option<String>,
}

impl LogIn {
    /// Uses the stored log-in, or otherwise logs in with the password.
    ///
    /// # Errors
    /// Returns a one-line error if the portal does not answer or refuses the log-in.
    pub(super) fn open(account: Account<'_>) -> Result<LogIn> {
        let portal = account.portal;
        let file = account.config_dir.join(FILE);
        let mut all = read(&file)?;
        let stored = all.get(&portal.to_string()).cloned();
        let known = stored
            .as_ref()
            .and_then(|stored| stored.fingerprint.as_deref());
        let pinned = account
            .fingerprint
            .or_else(|| known.and_then(|text| text.parse().ok()));
        let wanted = account.user;
        let stored = stored.filter(|stored| wanted.is_none_or(|wanted| wanted == stored.user));
        if let Some(stored) = &stored
            && let Some(login) = reuse(Http::new(portal, pinned)?, stored)?
        {
            let fingerprint = pinned.as_ref().map(CertificateHash::to_string);
            // A fingerprint on the command line replaces the stored one, as it does at a log-in with the password.
            if account.fingerprint.is_some() && fingerprint != stored.fingerprint {
                let stored = StoredLogIn {
                    fingerprint,
                    ..stored.clone()
                };
                all.insert(portal.to_string(), stored);
                write(account.config_dir, &file, &all)?;
            }
            return Ok(login);
        }
        let device = stored.as_ref().and_then(|stored| stored.device.clone());
        let user = match (wanted, stored) {
            (Some(user), _) => user.to_owned(),
            (None, Some(stored)) => stored.user,
            (None, None) => prompt_name(portal)?,
        };
        let password = password(account.password_file, &user)?;
        let body = json!({ "name": user, "password": password });
        let http = Http::new(portal, pinned)?;
        let known = device.filter(|of| is_cookie(of)).map(|cookie| Credentials {
            cookie,
            csrf: String::new(),
        });
        let answer = http.request("POST", "/api/login", known.as_ref(), Some(&body))?;
        let me: AccountInfo = answer.json()?;
        let mut cookies = answer.cookies.into_iter().filter(|of| is_cookie(of));
        // The first cookie is the log-in's cookie. A portal of an older version sets no other cookie.
        let cookie = cookies.next();
        let cookie =
            cookie.ok_or_else(|| anyhow!("{portal} accepted {user}, but set no cookie"))?;
        all.insert(
            portal.to_string(),
            StoredLogIn {
                user: me.name.clone(),
                cookie: cookie.clone(),
                device: cookies.next(),
                fingerprint: pinned.as_ref().map(CertificateHash::to_string),
            },
        );
        write(account.config_dir, &file, &all)?;
        eprintln!(
            "openuvr client: logged in at {portal} as {}",
            visible(&me.name)
        );
        Ok(LogIn {
            http,
            credentials: Credentials {
                cookie,
                csrf: header(me.csrf)?,
            },
            user: me.name,
        })
    }
}

/// Uses the cookie of an earlier log-in; `None` if the cookie is malformed or the portal no longer accepts it.
fn reuse(http: Http, stored: &StoredLogIn) -> Result<Option<LogIn>> {
    if !is_cookie(&stored.cookie) {
        return Ok(None);
    }
    let mut credentials = Credentials {
        cookie: stored.cookie.clone(),
        csrf: String::new(),
    };
    let answer = http.request("GET", "/api/me", Some(&credentials), None)?;
    if answer.status == 401 {
        return Ok(None);
    }
    let me: AccountInfo = answer.json()?;
    credentials.csrf = header(me.csrf)?;
    Ok(Some(LogIn {
        http,
        credentials,
        user: me.name,
    }))
}

/// Whether the text is `NAME=VALUE` with the characters of a cookie (RFC 6265, section 4.1.1).
fn is_cookie(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_graphic() && !b"\",;\\".contains(&byte);
    text.len() <= LONGEST && text.contains('=') && text.bytes().all(plain)
}

/// Checks that the text is valid in a header.
fn header(text: String) -> Result<String> {
    let plain = text.len() <= LONGEST && text.bytes().all(|byte| byte.is_ascii_graphic());
    match plain {
        true => Ok(text),
        false => {
            bail!("the server is not an OpenUVR portal, or its version does not match this client")
        }
    }
}

fn read(file: &Path) -> Result<BTreeMap<String, StoredLogIn>> {
    let Some(text) = store::read_text(file)? else {
        return Ok(BTreeMap::new());
    };
    serde_json::from_str(&text).map_err(|e| {
        anyhow!(
            "{} is damaged ({e}): remove it, and log in again",
            file.display()
        )
    })
}

fn write(folder: &Path, file: &Path, all: &BTreeMap<String, StoredLogIn>) -> Result<()> {
    store::ensure_dir(folder)?;
    Ok(store::write_whole(file, &serde_json::to_vec_pretty(all)?)?)
}
