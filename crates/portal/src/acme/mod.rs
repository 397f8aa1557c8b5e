//! Certificates through ACME (RFC 8555), such as those of Let's Encrypt. The portal orders a certificate, proves
//! control of the names with TLS-ALPN-01 (RFC 8737) on its own port, and renews the certificate in time.
//!
//! The portal stores the account, the certificate and the certificate's key in one folder. Until a certificate is
//! issued, the portal uses a self-signed one.

mod certificates;

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use instant_acme::{
    Account, AccountCredentials, AuthorizationStatus, ChallengeType, Identifier, LetsEncrypt,
    NewAccount, NewOrder, OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use serde::Deserialize;
use tokio::time::{sleep, timeout};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::sign::CertifiedKey;
use tracing::{info, warn};
use x509_parser::extensions::GeneralName;

use self::certificates::{Certificates, PROTOCOL, answer_to, own};
use crate::tls::{TlsError, certified, shown_by};

/// Delay after a failed order: Let's Encrypt allows five failed validations of a name per hour.
const RETRY_INTERVAL: Duration = Duration::from_secs(15 * 60);

/// Delay after an order if the new certificate is already due for renewal. This happens if the machine's clock is wrong
/// or the certificate is short-lived. Let's Encrypt permits one further certificate for the same names every 34 hours.
const MIN_RENEWAL: Duration = Duration::from_secs(36 * 3600);

/// Maximum wait until the clock is read again, because the machine's clock may be set during the wait.
const MAX_WAIT: Duration = Duration::from_secs(3600);

/// Timeout for the validation and for the issuance, each. This is a guess: they usually take seconds.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Timeout for a whole order; a guess. The ACME client waits for responses without limit.
const ORDER_TIMEOUT: Duration = Duration::from_secs(600);

/// Maximum number of names per order, which is the limit of Let's Encrypt.
const MOST_NAMES: usize = 100;

const ACCOUNT: &str = "account.json";
const CERTIFICATE: &str = "certificate.pem";

/// The beginning of the certificate file's first line, which states the directory of the authority. Parsers of PEM
/// ignore the line (RFC 7468, section 2).
const DIRECTORY: &str = "ACME directory: ";

/// The table `[acme]` of the configuration.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AcmeSection {
    /// The host names of the portal.
    pub(crate) names: Vec<String>,
    /// Contact for the authority's notifications: `mailto:…`.
    #[serde(default)]
    pub(crate) contact: Option<String>,
    /// Whether the operator agrees to the authority's terms of service.
    #[serde(default)]
    pub(crate) agree: bool,
    /// URL of the authority's directory.
    #[serde(default = "lets_encrypt")]
    pub(crate) directory: String,
    /// PEM file with the root certificate of the directory's server. Needed if the system does not trust this root.
    #[serde(default)]
    pub(crate) ca: Option<PathBuf>,
}

fn lets_encrypt() -> String {
    LetsEncrypt::Production.url().to_owned()
}

/// Why ACME provides no certificate.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AcmeError {
    /// The table is invalid.
    #[error("[acme]: {0}")]
    Section(&'static str),
    /// The stored files cannot be read or written.
    #[error("{}: {why}", path.display())]
    Kept { path: PathBuf, why: String },
    /// The authority refused a request or is unreachable.
    #[error("certificate authority: {0}")]
    Authority(#[from] instant_acme::Error),
    /// The order exceeded `ORDER_TIMEOUT`.
    #[error("certificate authority: no certificate within {} min", ORDER_TIMEOUT.as_secs() / 60)]
    Late,
    /// Validation of the name failed.
    #[error(
        "the certificate authority could not validate {0}: check that its port 443 leads to this portal"
    )]
    Invalid(String),
    /// The authority does not support TLS-ALPN-01.
    #[error("the certificate authority does not offer TLS-ALPN-01 for {0}")]
    NoChallenge(String),
    /// Creating a key or a certificate failed.
    #[error("cannot create a key or certificate: {0}")]
    Make(#[from] rcgen::Error),
    /// The certificate or its key is not usable.
    #[error("{0}")]
    Tls(#[from] TlsError),
}

impl AcmeSection {
    /// Validates the table.
    ///
    /// # Errors
    /// Returns a one-line error that states how to fix the table.
    pub(crate) fn check(&self) -> Result<(), AcmeError> {
        let plain = |name: &String| {
            let known = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
            !name.is_empty() && name.len() <= 253 && name.chars().all(known)
        };
        if self.names.is_empty() || self.names.len() > MOST_NAMES || !self.names.iter().all(plain) {
            let why =
                "names must list 1 to 100 host names of this portal, as in [\"play.example.org\"]";
            return Err(AcmeError::Section(why));
        }
        if !self.agree {
            let why = "read the authority's terms of service and set agree = true";
            return Err(AcmeError::Section(why));
        }
        Ok(())
    }
}

/// The current certificate and the time of its renewal.
pub(crate) struct Acme {
    section: AcmeSection,
    folder: PathBuf,
    certificates: Arc<Certificates>,
    /// Time of the next order.
    due: SystemTime,
}

impl Acme {
    /// Loads the stored certificate, or creates a self-signed one.
    ///
    /// # Errors
    /// Returns an error if the table is invalid, or if the folder or the stored certificate is not usable.
    pub(crate) fn open(section: AcmeSection, folder: PathBuf) -> Result<Acme, AcmeError> {
        section.check()?;
        let kept = |why: io::Error| AcmeError::Kept {
            path: folder.clone(),
            why: why.to_string(),
        };
        (DirBuilder::new().recursive(true).mode(0o700))
            .create(&folder)
            .map_err(kept)?;
        let file = folder.join(CERTIFICATE);
        let (first, due) = match file.exists() {
            true => {
                let found = certified(&file, &file)?;
                let text = fs::read_to_string(&file).unwrap_or_default();
                let fits =
                    is_for(&found, &section.names) && is_issued_by(&text, &section.directory);
                let due = due(&found).filter(|_| fits).unwrap_or(UNIX_EPOCH);
                (found, due)
            }
            false => (own(&section.names)?, UNIX_EPOCH),
        };
        Ok(Acme {
            section,
            certificates: Arc::new(Certificates::new(first)),
            folder,
            due,
        })
    }

    /// The TLS configuration for connections.
    ///
    /// # Errors
    /// Returns an error if TLS cannot be set up.
    pub(crate) fn tls(&self) -> Result<Arc<ServerConfig>, AcmeError> {
        let resolver = Arc::clone(&self.certificates);
        Ok(shown_by(resolver, &[PROTOCOL])?)
    }

    /// Renews the certificate in time, for as long as the future is polled.
    pub(crate) async fn keep(mut self) {
        loop {
            let wait = self.due.duration_since(SystemTime::now());
            if let Ok(wait) = wait {
                sleep(wait.min(MAX_WAIT)).await;
                continue;
            }
            let obtained = timeout(ORDER_TIMEOUT, self.obtain()).await;
            self.certificates.forget_answers();
            let obtained = obtained.unwrap_or(Err(AcmeError::Late));
            let pause = self.ordered(obtained, SystemTime::now());
            // This wait does not depend on the clock, which may be set meanwhile.
            sleep(pause).await;
        }
    }

    /// Handles the result of an order. Returns the wait until the due time is considered again.
    fn ordered(&mut self, obtained: Result<SystemTime, AcmeError>, now: SystemTime) -> Duration {
        match obtained {
            Ok(due) => {
                info!(names = ?self.section.names, "new certificate");
                self.due = due;
                if due > now {
                    return Duration::ZERO;
                }
                let hours = MIN_RENEWAL.as_secs() / 3600;
                warn!(
                    "the new certificate is already due for renewal, next order in {hours} h: check this machine's clock"
                );
                MIN_RENEWAL
            }
            Err(why) => {
                let minutes = RETRY_INTERVAL.as_secs() / 60;
                warn!("cannot renew the certificate, next attempt in {minutes} min: {why}");
                RETRY_INTERVAL
            }
        }
    }

    /// Orders and installs a certificate. Returns the time of the next order.
    async fn obtain(&self) -> Result<SystemTime, AcmeError> {
        let policy = RetryPolicy::default().timeout(TIMEOUT);
        let names = self.section.names.iter();
        let names: Vec<Identifier> = names.cloned().map(Identifier::Dns).collect();
        let account = self.account().await?;
        let mut order = account.new_order(&NewOrder::new(&names)).await?;
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization?;
            let name = authorization.identifier().to_string();
            match authorization.status {
                AuthorizationStatus::Valid => continue,
                AuthorizationStatus::Pending => {}
                _ => return Err(AcmeError::Invalid(name)),
            }
            let Some(mut challenge) = authorization.challenge(ChallengeType::TlsAlpn01) else {
                return Err(AcmeError::NoChallenge(name));
            };
            let digest = challenge.key_authorization().digest();
            let answer = answer_to(&name, digest.as_ref())?;
            self.certificates.answer(name, answer);
            challenge.set_ready().await?;
        }
        if order.poll_ready(&policy).await? != OrderStatus::Ready {
            return Err(AcmeError::Invalid(self.section.names.join(", ")));
        }
        let pair = KeyPair::generate()?;
        let mut params = CertificateParams::new(self.section.names.clone())?;
        params.distinguished_name = DistinguishedName::new();
        let request = params.serialize_request(&pair)?;
        order.finalize_csr(request.der()).await?;
        let chain = order.poll_certificate(&policy).await?;
        let file = self.folder.join(CERTIFICATE);
        let text = certificate_file(&self.section.directory, &chain, &pair.serialize_pem());
        write(&file, &text)?;
        let key = certified(&file, &file)?;
        let due = due(&key).unwrap_or(SystemTime::now() + MAX_WAIT);
        self.certificates.show(key);
        Ok(due)
    }

    /// The stored account, or a new one.
    async fn account(&self) -> Result<Account, AcmeError> {
        let builder = || match &self.section.ca {
            Some(ca) => Account::builder_with_root(ca),
            None => Account::builder(),
        };
        let file = self.folder.join(ACCOUNT);
        let kept = |why: String| AcmeError::Kept {
            path: file.clone(),
            why,
        };
        match fs::read_to_string(&file) {
            Ok(text) if is_elsewhere(&text, &self.section.directory) => {
                info!(directory = self.section.directory, "new ACME account");
            }
            Ok(text) => {
                let credentials: AccountCredentials = serde_json::from_str(&text)
                    .map_err(|why| kept(format!("not an ACME account: {why}; remove the file")))?;
                return Ok(builder()?.from_credentials(credentials).await?);
            }
            Err(why) if why.kind() == io::ErrorKind::NotFound => {}
            Err(why) => return Err(kept(why.to_string())),
        }
        let contact: Vec<&str> = self.section.contact.iter().map(String::as_str).collect();
        let params = NewAccount {
            contact: &contact,
            terms_of_service_agreed: self.section.agree,
            only_return_existing: false,
        };
        let directory = self.section.directory.clone();
        let (account, credentials) = builder()?.create(&params, directory, None).await?;
        let text = serde_json::to_string(&credentials).map_err(|why| kept(why.to_string()))?;
        write(&file, &text)?;
        Ok(account)
    }
}

/// Whether the certificate is valid for all names. An operator may have changed the names since the order.
fn is_for(of: &CertifiedKey, names: &[String]) -> bool {
    let leaf = of.cert.first();
    let leaf = leaf.and_then(|leaf| x509_parser::parse_x509_certificate(leaf).ok());
    let Some((_, certificate)) = leaf else {
        return false;
    };
    let Ok(Some(found)) = certificate.subject_alternative_name() else {
        return false;
    };
    names.iter().all(|name| {
        let mut found = found.value.general_names.iter();
        found.any(|of| matches!(of, GeneralName::DNSName(of) if of.eq_ignore_ascii_case(name)))
    })
}

/// The contents of the file with a certificate from the authority with this directory, and with its key.
fn certificate_file(directory: &str, chain: &str, key: &str) -> String {
    format!("{DIRECTORY}{directory}\n{chain}{key}")
}

/// Whether the file contains a certificate from the authority with this directory. The stored account is no evidence of
/// that: after a change of the authority, the account belongs to the new authority even if the first order there has
/// failed.
fn is_issued_by(file: &str, directory: &str) -> bool {
    let first = file.lines().next();
    first.and_then(|line| line.strip_prefix(DIRECTORY)) == Some(directory)
}

/// Whether the stored account belongs to another directory. An operator may have selected another authority, for
/// example after an attempt with a test authority.
fn is_elsewhere(account: &str, directory: &str) -> bool {
    let account: serde_json::Value = serde_json::from_str(account).unwrap_or_default();
    account["directory"]
        .as_str()
        .is_some_and(|of| of != directory)
}

/// Time of the next order: after two thirds of the certificate's validity, as Let's Encrypt recommends.
fn due(of: &CertifiedKey) -> Option<SystemTime> {
    let (_, certificate) = x509_parser::parse_x509_certificate(of.cert.first()?).ok()?;
    let validity = certificate.validity();
    let from = u64::try_from(validity.not_before.timestamp()).ok()?;
    let to = u64::try_from(validity.not_after.timestamp()).ok()?;
    let seconds = to.checked_sub(from)? / 3 * 2;
    UNIX_EPOCH.checked_add(Duration::from_secs(from.checked_add(seconds)?))
}

/// Writes a file atomically. Only this user can read and write it.
fn write(file: &Path, text: &str) -> Result<(), AcmeError> {
    let temporary = file.with_extension("new");
    let written = || -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut to = options.open(&temporary)?;
        to.write_all(text.as_bytes())?;
        to.sync_all()?;
        fs::rename(&temporary, file)
    };
    written().map_err(|why| AcmeError::Kept {
        path: file.to_owned(),
        why: why.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_table_without_names_or_agreement_is_refused() {
        let section = |text: &str| toml::from_str::<AcmeSection>(text).unwrap();
        let good = section("names = [\"play.example.org\"]\nagree = true");
        good.check().unwrap();
        assert!(good.directory.starts_with("https://acme-v02"));
        for wrong in [
            "names = []\nagree = true",
            "names = [\"*.example.org\"]\nagree = true",
            "names = [\"a b\"]\nagree = true",
        ] {
            let refused = section(wrong).check().unwrap_err().to_string();
            assert!(refused.contains("names"), "{refused}");
        }
        let refused = section("names = [\"a\"]").check().unwrap_err().to_string();
        assert!(refused.contains("agree = true"), "{refused}");
    }

    #[test]
    fn orders_are_spaced_even_if_the_clock_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let section = AcmeSection {
            names: vec!["a".to_owned()],
            contact: None,
            agree: true,
            directory: String::new(),
            ca: None,
        };
        let mut acme = Acme::open(section, folder.path().to_owned()).unwrap();
        let now = UNIX_EPOCH + Duration::from_secs(1_767_225_600);
        // The clock may be set back after a failure, so the due time must not come from it.
        assert_eq!(acme.ordered(Err(AcmeError::Late), now), RETRY_INTERVAL);
        assert_eq!(acme.due, UNIX_EPOCH);
        let later = now + Duration::from_secs(1);
        assert_eq!(acme.ordered(Ok(later), now), Duration::ZERO);
        assert_eq!(acme.due, later);
        assert_eq!(acme.ordered(Ok(now), now), MIN_RENEWAL);
    }

    #[test]
    fn the_next_one_is_due_after_two_thirds() {
        let pair = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(["a".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2026, 1, 1);
        params.not_after = rcgen::date_time_ymd(2026, 4, 1);
        let made = params.self_signed(&pair).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(CERTIFICATE);
        let text = certificate_file("https://a.example", &made.pem(), &pair.serialize_pem());
        write(&file, &text).unwrap();
        let kept = certified(&file, &file).unwrap();
        // The certificate is valid for 90 days from 1767225600 (2026-01-01). Two thirds are 60 days.
        let due = due(&kept).unwrap().duration_since(UNIX_EPOCH).unwrap();
        assert_eq!(due.as_secs(), 1_767_225_600 + 60 * 86_400);
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600
        );
        // A restarted portal loads the stored certificate.
        let section = AcmeSection {
            names: vec!["a".to_owned()],
            contact: None,
            agree: true,
            directory: "https://a.example".to_owned(),
            ca: None,
        };
        let open = |section: &AcmeSection| {
            let opened = Acme::open(section.clone(), folder.path().to_owned()).unwrap();
            opened.due.duration_since(UNIX_EPOCH).unwrap()
        };
        assert_eq!(open(&section), due);
        // With another name or another authority, the next order is due at once.
        let more = AcmeSection {
            names: vec!["a".to_owned(), "b".to_owned()],
            ..section.clone()
        };
        assert_eq!(open(&more), Duration::ZERO);
        let elsewhere = AcmeSection {
            directory: "https://test.example".to_owned(),
            ..section.clone()
        };
        assert_eq!(open(&elsewhere), Duration::ZERO);
        // The account at the other authority has been created, but the order there has failed.
        let account = r#"{"directory": "https://test.example"}"#;
        fs::write(folder.path().join(ACCOUNT), account).unwrap();
        assert_eq!(open(&elsewhere), Duration::ZERO);
    }
}
