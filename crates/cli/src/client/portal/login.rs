//! Logging in at a portal, and what is kept of it: a file of this user alone, with each portal's cookie.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, anyhow, bail};
use openuvr_runtime::store;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::config::portal::{CertificateHash, PortalAddress};
use crate::config::{ClientConfig, visible};

use super::http::{Credentials, Http};
use super::password::{ask_name, password};

/// The file, in the folder of keys.
const FILE: &str = "portals.json";

/// Bytes of a cookie at most: a portal's has 80.
const LONGEST: usize = 512;

/// Who has logged in, where.
pub(super) struct LogIn {
    pub(super) http: Http,
    pub(super) who: Credentials,
    /// The account's name.
    pub(super) user: String,
}

/// What the portal says of who asks.
#[derive(Deserialize)]
struct Me {
    name: String,
    csrf: String,
}

/// What is kept of one portal.
#[derive(Clone, Serialize, Deserialize)]
struct Kept {
    user: String,
    cookie: String,
    /// By which the portal knows this client when it logs in again: strangers who guess at the account don't keep it
    /// out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    device: Option<String>,
    /// The certificate's, where the person gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fingerprint: Option<String>,
}

impl LogIn {
    /// By what is kept of an earlier log-in, or else by the password.
    ///
    /// # Errors
    /// One line: the portal does not answer, or does not let the person in.
    pub(super) fn open(portal: &PortalAddress, config: &ClientConfig) -> Result<LogIn> {
        let file = config.config_dir.join(FILE);
        let mut all = read(&file)?;
        let kept = all.get(&portal.to_string()).cloned();
        let known = kept.as_ref().and_then(|kept| kept.fingerprint.as_deref());
        let pinned = config
            .portal_fingerprint
            .or_else(|| known.and_then(|text| text.parse().ok()));
        let wanted = config.portal_user.as_deref();
        let kept = kept.filter(|kept| wanted.is_none_or(|wanted| wanted == kept.user));
        if let Some(kept) = &kept
            && let Some(login) = again(Http::new(portal, pinned)?, kept)?
        {
            return Ok(login);
        }
        let device = kept.as_ref().and_then(|kept| kept.device.clone());
        let user = match (wanted, kept) {
            (Some(user), _) => user.to_owned(),
            (None, Some(kept)) => kept.user,
            (None, None) => ask_name(portal)?,
        };
        let password = password(config.portal_password_file.as_deref(), &user)?;
        let body = json!({ "name": user, "password": password });
        let http = Http::new(portal, pinned)?;
        let known = device.filter(|of| is_cookie(of)).map(|cookie| Credentials {
            cookie,
            csrf: String::new(),
        });
        let answer = http.ask("POST", "/api/login", known.as_ref(), Some(&body))?;
        let me: Me = answer.done()?;
        let mut cookies = answer.cookies.into_iter().filter(|of| is_cookie(of));
        // The log-in's is the first; a portal of an older version sets no other.
        let cookie = cookies.next();
        let cookie = cookie.ok_or_else(|| anyhow!("{portal} let {user} in and set no cookie"))?;
        all.insert(
            portal.to_string(),
            Kept {
                user: me.name.clone(),
                cookie: cookie.clone(),
                device: cookies.next(),
                fingerprint: pinned.as_ref().map(CertificateHash::to_string),
            },
        );
        write(&config.config_dir, &file, &all)?;
        eprintln!(
            "openuvr client: logged in at {portal} as {}",
            visible(&me.name)
        );
        Ok(LogIn {
            http,
            who: Credentials {
                cookie,
                csrf: header(me.csrf)?,
            },
            user: me.name,
        })
    }
}

/// With the cookie of an earlier log-in; `None` if the portal does not know it any more.
fn again(http: Http, kept: &Kept) -> Result<Option<LogIn>> {
    if !is_cookie(&kept.cookie) {
        return Ok(None);
    }
    let mut who = Credentials {
        cookie: kept.cookie.clone(),
        csrf: String::new(),
    };
    let answer = http.ask("GET", "/api/me", Some(&who), None)?;
    if answer.status == 401 {
        return Ok(None);
    }
    let me: Me = answer.done()?;
    who.csrf = header(me.csrf)?;
    Ok(Some(LogIn {
        http,
        who,
        user: me.name,
    }))
}

/// `NAME=VALUE` of the characters that a cookie may have (RFC 6265, section 4.1.1).
fn is_cookie(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_graphic() && !b"\",;\\".contains(&byte);
    text.len() <= LONGEST && text.contains('=') && text.bytes().all(plain)
}

/// What may stand in a header.
fn header(text: String) -> Result<String> {
    let plain = text.len() <= LONGEST && text.bytes().all(|byte| byte.is_ascii_graphic());
    match plain {
        true => Ok(text),
        false => bail!("what answers there is no portal of OpenUVR, or one of another version"),
    }
}

fn read(file: &Path) -> Result<BTreeMap<String, Kept>> {
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

fn write(folder: &Path, file: &Path, all: &BTreeMap<String, Kept>) -> Result<()> {
    store::ensure_dir(folder)?;
    Ok(store::write_whole(file, &serde_json::to_vec_pretty(all)?)?)
}
