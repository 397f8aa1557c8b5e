//! Certificates that a host creates for its page: the certificate of its own authority, which the user can install in
//! browsers, and the page certificate. The page certificate is replaced before it expires, and when it lacks one of the
//! page's names.
//!
//! The authority can sign only for this host's names and addresses and for private addresses (RFC 5280 section
//! 4.2.1.10). A stolen key of the authority is therefore of little use without access to the host.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use openuvr_runtime::store::{Lock, read_text, write_whole};
use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DnType, ExtendedKeyUsagePurpose,
    GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose, NameConstraints,
};
use time::OffsetDateTime;
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::ServerCertVerifier as _;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

use crate::own_addresses::own_addresses;
use crate::tls_error::TlsError;

/// The page's certificate and key, in the host's folder.
pub(crate) const PAGE: &str = "web.pem";

/// The authority's certificate and key.
const AUTHORITY: &str = "web-authority.pem";

/// Validity of the page's certificate after its creation; it is also valid on the day before. The total is below 398
/// days, the limit for public authorities until March 2026 (CA/Browser Forum Baseline Requirements, section 6.3.2).
/// Browsers do not apply the limits for public authorities to an authority that the user has installed.
const PAGE_VALID: Duration = Duration::from_hours(24 * 396);

/// Validity of the authority's certificate (a guess: longer than a machine is used).
const AUTHORITY_VALID: Duration = Duration::from_hours(24 * 3650);

/// Tolerated lag of browser clocks.
const CLOCK_TOLERANCE: Duration = Duration::from_hours(24);

/// A certificate with less remaining validity than this is reissued.
const RENEW_BEFORE: Duration = Duration::from_hours(24 * 30);

/// Maximum number of names in a certificate (guess: a machine with many bridges has some dozens of addresses).
const MAX_NAMES: usize = 64;

/// Networks with addresses that are not globally unique (RFC 1918, 3927, 4193, 4291, 6598, 1122).
const PRIVATE: [(&str, u8); 9] = [
    ("10.0.0.0", 8),
    ("172.16.0.0", 12),
    ("192.168.0.0", 16),
    ("169.254.0.0", 16),
    ("100.64.0.0", 10),
    ("127.0.0.0", 8),
    ("fc00::", 7),
    ("fe80::", 10),
    ("::1", 128),
];

/// The names and addresses at which browsers may reach a page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageNames(BTreeSet<String>);

impl PageNames {
    /// The names of a page at `bind` on this machine, plus `besides` (names and addresses). Texts that a certificate
    /// cannot contain, and names beyond the first 64, are omitted.
    #[must_use]
    pub fn of(bind: SocketAddr, besides: impl IntoIterator<Item = String>) -> PageNames {
        let bound = bind.ip().to_canonical();
        let mut addresses = vec![
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(Ipv6Addr::LOCALHOST),
        ];
        match bound.is_unspecified() {
            true => addresses.extend(own_addresses()),
            false => addresses.push(bound),
        }
        let machine = openuvr_runtime::machine::name();
        let names = [
            format!("{machine}.local"),
            machine,
            "localhost".to_owned(),
            "openuvr.local".to_owned(),
        ];
        let all = (names.into_iter().chain(besides))
            .chain(addresses.iter().map(IpAddr::to_string))
            .map(|name| name.to_ascii_lowercase())
            .filter(|name| ServerName::try_from(name.as_str()).is_ok());
        PageNames(all.take(MAX_NAMES).collect())
    }
}

/// Creates the page's certificate in `folder`, unless the folder contains a certificate that covers these names and
/// does not expire soon. Replaces the authority if it is not allowed to sign for one of the names or expires soon.
///
/// # Errors
/// [`TlsError`] if reading, creating or writing a certificate fails. A damaged authority file is not changed.
pub(crate) fn ensure(folder: &Path, names: &PageNames, now: SystemTime) -> Result<(), TlsError> {
    let lock = Lock::take(folder)?;
    let authority = Authority::open(&lock, folder, names, now)?;
    if authority.vouches_for(&folder.join(PAGE), names, now) {
        return Ok(());
    }
    authority.sign(folder, names, now)?;
    if authority.vouches_for(&folder.join(PAGE), names, now) {
        return Ok(());
    }
    // The existing authority is not allowed to sign for one of the names, or is about to expire.
    let authority = Authority::make(&lock, folder, names, now)?;
    tracing::warn!(
        "the authority of the page's certificate was replaced: in browsers that trust the old authority, install the \
         new authority's certificate (`openuvr web-certificate` prints it)"
    );
    authority.sign(folder, names, now)
}

/// The authority's certificate in PEM form. The authority is created if `folder` has none.
///
/// # Errors
/// [`TlsError`] if reading, creating or writing the certificate fails.
pub fn authority(folder: &Path, names: &PageNames, now: SystemTime) -> Result<String, TlsError> {
    let lock = Lock::take(folder)?;
    Ok(Authority::open(&lock, folder, names, now)?.pem)
}

struct Authority {
    certificate: CertificateDer<'static>,
    /// The certificate without the key.
    pem: String,
    issuer: Issuer<'static, KeyPair>,
    /// Expiry, stored because the TLS verifier checks only the page certificate's validity.
    ends: SystemTime,
}

impl Authority {
    /// Reads the authority in `folder`, or creates it.
    fn open(
        lock: &Lock,
        folder: &Path,
        names: &PageNames,
        now: SystemTime,
    ) -> Result<Authority, TlsError> {
        let path = folder.join(AUTHORITY);
        let Some(text) = read_text(&path)? else {
            return Authority::make(lock, folder, names, now);
        };
        let damaged = |what: String| TlsError::Content {
            path: path.clone(),
            what: format!("{what}; move the file away, and the host creates another"),
        };
        let end = "-----END CERTIFICATE-----\n";
        let pem = text.split_inclusive(end).next().unwrap_or_default();
        let pem = pem.to_owned();
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes())
            .map_err(|e| damaged(format!("not a certificate: {e}")))?;
        let key = text[pem.len()..].trim();
        let key = KeyPair::from_pem(key).map_err(|e| damaged(format!("not a key: {e}")))?;
        let issuer = Issuer::from_ca_cert_der(&certificate, key)
            .map_err(|e| damaged(format!("not a certificate authority: {e}")))?;
        let ends = ends(&certificate)
            .ok_or_else(|| damaged("its expiry date cannot be read".to_owned()))?;
        Ok(Authority {
            certificate,
            pem,
            issuer,
            ends,
        })
    }

    /// Creates an authority. An existing one is replaced.
    fn make(
        _lock: &Lock,
        folder: &Path,
        names: &PageNames,
        now: SystemTime,
    ) -> Result<Authority, TlsError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        (params.not_before, params.not_after) = validity(now, AUTHORITY_VALID);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.name_constraints = Some(NameConstraints {
            permitted_subtrees: permitted(names),
            excluded_subtrees: Vec::new(),
        });
        let title = format!("OpenUVR host {}", openuvr_runtime::machine::name());
        params.distinguished_name.push(DnType::CommonName, title);
        let made = params.self_signed(&key)?;
        let pem = made.pem().replace("\r\n", "\n");
        let both = format!("{pem}{}", key.serialize_pem());
        write_whole(&folder.join(AUTHORITY), both.as_bytes())?;
        Ok(Authority {
            certificate: made.der().clone(),
            pem,
            issuer: Issuer::new(params, key),
            ends: now + AUTHORITY_VALID,
        })
    }

    /// Creates the page's certificate.
    fn sign(&self, folder: &Path, names: &PageNames, now: SystemTime) -> Result<(), TlsError> {
        let key = KeyPair::generate()?;
        let names: Vec<String> = names.0.iter().cloned().collect();
        let mut params = CertificateParams::new(names)?;
        (params.not_before, params.not_after) = validity(now, PAGE_VALID);
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let title = "OpenUVR host's page";
        params.distinguished_name.push(DnType::CommonName, title);
        let made = params.signed_by(&key, &self.issuer)?;
        let both = format!("{}{}", made.pem(), key.serialize_pem());
        write_whole(&folder.join(PAGE), both.as_bytes())?;
        Ok(())
    }

    /// Whether a browser that trusts this authority accepts the certificate at `page` for each of these names, both now
    /// and [`RENEW_BEFORE`] later.
    fn vouches_for(&self, page: &Path, names: &PageNames, now: SystemTime) -> bool {
        let page = read_text(page).ok().flatten().unwrap_or_default();
        let Ok(page) = CertificateDer::from_pem_slice(page.as_bytes()) else {
            return false;
        };
        if self.ends < now + RENEW_BEFORE {
            return false;
        }
        let mut roots = RootCertStore::empty();
        if roots.add(self.certificate.clone()).is_err() {
            return false;
        }
        let provider = Arc::new(default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        let Ok(verifier) = verifier.build() else {
            return false;
        };
        let taken = |name: &str, at: SystemTime| {
            let since_1970 = at.duration_since(UNIX_EPOCH).unwrap_or_default();
            let time = UnixTime::since_unix_epoch(since_1970);
            ServerName::try_from(name).is_ok_and(|name| {
                verifier
                    .verify_server_cert(&page, &[], &name, &[], time)
                    .is_ok()
            })
        };
        (names.0.iter()).all(|name| taken(name, now) && taken(name, now + RENEW_BEFORE))
    }
}

fn ends(certificate: &CertificateDer<'_>) -> Option<SystemTime> {
    let (_, read) = X509Certificate::from_der(certificate).ok()?;
    let seconds = u64::try_from(read.validity().not_after.timestamp()).ok()?;
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

/// The names for which an authority may sign.
fn permitted(names: &PageNames) -> Vec<GeneralSubtree> {
    let private = PRIVATE.iter().filter_map(|(network, bits)| {
        let network: IpAddr = network.parse().ok()?;
        Some((network, *bits))
    });
    let mut networks: Vec<(IpAddr, u8)> = private.collect();
    let mut permitted = Vec::new();
    for name in &names.0 {
        match name.parse::<IpAddr>() {
            Ok(address @ IpAddr::V4(_)) => networks.push((address, 32)),
            Ok(address @ IpAddr::V6(_)) => networks.push((address, 128)),
            Err(_) => permitted.push(GeneralSubtree::DnsName(name.clone())),
        }
    }
    let subnets = networks.into_iter().map(|(address, bits)| {
        GeneralSubtree::IpAddress(CidrSubnet::from_addr_prefix(address, bits))
    });
    permitted.extend(subnets);
    permitted
}

/// The validity of a certificate: from one day before `now` to `valid` after `now`.
fn validity(now: SystemTime, valid: Duration) -> (OffsetDateTime, OffsetDateTime) {
    let since_1970 = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = OffsetDateTime::UNIX_EPOCH + Duration::from_secs(since_1970.as_secs());
    (now - CLOCK_TOLERANCE, now + valid)
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    /// A temporary folder for this user only, whatever the umask.
    fn private_folder() -> TempDir {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::Permissions::from_mode(0o700);
        tempfile::Builder::new()
            .permissions(mode)
            .tempdir()
            .unwrap()
    }

    fn text(folder: &TempDir, file: &str) -> String {
        std::fs::read_to_string(folder.path().join(file)).unwrap()
    }

    fn names(besides: &[&str]) -> PageNames {
        let bind = "192.168.3.4:4711".parse().unwrap();
        PageNames::of(bind, besides.iter().map(|&name| name.to_owned()))
    }

    /// Whether a browser that trusts the folder's authority accepts the page under this name at this time.
    fn takes(folder: &TempDir, name: &str, at: SystemTime) -> bool {
        let pem = text(folder, AUTHORITY);
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap())
            .unwrap();
        let provider = Arc::new(default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        let page = CertificateDer::from_pem_slice(text(folder, PAGE).as_bytes()).unwrap();
        let time = UnixTime::since_unix_epoch(at.duration_since(UNIX_EPOCH).unwrap());
        let name = ServerName::try_from(name).unwrap();
        let verifier = verifier.build().unwrap();
        verifier
            .verify_server_cert(&page, &[], &name, &[], time)
            .is_ok()
    }

    #[test]
    fn the_page_is_trusted_by_all_its_names_for_398_days_at_most() {
        let folder = private_folder();
        let now = SystemTime::now();
        ensure(
            folder.path(),
            &names(&["desk.example.org", "no name!", "203.0.113.7"]),
            now,
        )
        .unwrap();
        for name in [
            "localhost",
            "127.0.0.1",
            "::1",
            "192.168.3.4",
            "desk.example.org",
            "203.0.113.7",
        ] {
            assert!(takes(&folder, name, now), "{name}");
            assert!(takes(&folder, name, now + 395 * DAY), "{name}");
            assert!(!takes(&folder, name, now + 397 * DAY), "{name}");
            assert!(!takes(&folder, name, now - 2 * DAY), "{name}");
        }
        assert!(!takes(&folder, "192.168.3.5", now));
    }

    /// Extensions that some browsers and systems require, but the TLS verifier does not.
    #[test]
    fn the_page_is_a_server_and_no_authority() {
        let folder = private_folder();
        ensure(folder.path(), &names(&[]), SystemTime::now()).unwrap();
        let page = CertificateDer::from_pem_slice(text(&folder, PAGE).as_bytes()).unwrap();
        let (_, page) = X509Certificate::from_der(&page).unwrap();
        let usage = page.extended_key_usage().unwrap().unwrap().value;
        assert!(usage.server_auth, "{usage:?}");
        assert!(!usage.any && !usage.client_auth, "{usage:?}");
        let limits = page.basic_constraints().unwrap().unwrap().value;
        assert!(!limits.ca, "{limits:?}");
        let authority = text(&folder, AUTHORITY);
        let authority = CertificateDer::from_pem_slice(authority.as_bytes()).unwrap();
        let (_, authority) = X509Certificate::from_der(&authority).unwrap();
        let limits = authority.basic_constraints().unwrap().unwrap().value;
        assert_eq!((limits.ca, limits.path_len_constraint), (true, Some(0)));
        assert_eq!(page.issuer(), authority.subject());
    }

    #[test]
    fn the_certificate_is_renewed_in_time_by_the_same_authority() {
        let folder = private_folder();
        let now = SystemTime::now();
        ensure(folder.path(), &names(&[]), now).unwrap();
        let (authority, page) = (text(&folder, AUTHORITY), text(&folder, PAGE));
        ensure(folder.path(), &names(&[]), now + 300 * DAY).unwrap();
        assert_eq!(text(&folder, PAGE), page);
        ensure(folder.path(), &names(&[]), now + 370 * DAY).unwrap();
        assert_ne!(text(&folder, PAGE), page);
        assert_eq!(text(&folder, AUTHORITY), authority);
        assert!(takes(&folder, "localhost", now + 700 * DAY));
        // The same authority signs for another private address.
        let page = text(&folder, PAGE);
        ensure(folder.path(), &names(&["10.1.2.3"]), now + 371 * DAY).unwrap();
        assert_ne!(text(&folder, PAGE), page);
        assert_eq!(text(&folder, AUTHORITY), authority);
        // The authority expires in one day, so it is replaced.
        let late = now + AUTHORITY_VALID - DAY;
        ensure(folder.path(), &names(&[]), late).unwrap();
        assert_ne!(text(&folder, AUTHORITY), authority);
        assert!(takes(&folder, "localhost", late + 300 * DAY));
    }

    #[test]
    fn an_authority_signs_for_this_host_alone() {
        let folder = private_folder();
        let now = SystemTime::now();
        ensure(folder.path(), &names(&[]), now).unwrap();
        let first = text(&folder, AUTHORITY);
        let lock = Lock::take(folder.path()).unwrap();
        let authority = Authority::open(&lock, folder.path(), &names(&[]), now).unwrap();
        let other = names(&["bank.example.org", "203.0.113.7"]);
        authority.sign(folder.path(), &other, now).unwrap();
        for name in ["bank.example.org", "203.0.113.7", "localhost"] {
            assert!(!takes(&folder, name, now), "{name}");
        }
        drop(lock);
        // A name outside the constraints needs a new authority.
        ensure(folder.path(), &other, now).unwrap();
        assert!(takes(&folder, "bank.example.org", now));
        assert_ne!(text(&folder, AUTHORITY), first);
    }

    #[test]
    fn old_certificates_are_replaced_damaged_ones_reported() {
        let folder = private_folder();
        let now = SystemTime::now();
        drop(Lock::take(folder.path()).unwrap());
        let pair = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["openuvr.local".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2099, 12, 31);
        let old = params.self_signed(&pair).unwrap();
        let both = format!("{}{}", old.pem(), pair.serialize_pem());
        write_whole(&folder.path().join(PAGE), both.as_bytes()).unwrap();
        ensure(folder.path(), &names(&[]), now).unwrap();
        assert!(takes(&folder, "openuvr.local", now));
        for content in ["", "junk", &old.pem()] {
            write_whole(&folder.path().join(AUTHORITY), content.as_bytes()).unwrap();
            let why = ensure(folder.path(), &names(&[]), now)
                .unwrap_err()
                .to_string();
            assert!(why.contains("web-authority.pem: not a"), "{why}");
            assert_eq!(text(&folder, AUTHORITY), content);
        }
    }
}
