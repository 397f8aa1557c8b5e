//! The portal's parsers of external input, for the fuzz targets (`fuzz/src/portals.rs`). Each function accepts any
//! input; a panic is a finding.
//!
//! This module is not part of any interface. Only the fuzz targets use it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

use k8s_openapi::api::core::v1::Pod;
use openidconnect::core::CoreGenderClaim;
use openidconnect::{IdTokenClaims, UserInfoClaims};
use serde_json::Value;

use crate::accounts::Devices;
use crate::catalogue;
use crate::launch::kubernetes::{endpoints, phase, pod};
use crate::launch::slurm::comment::Comment;
use crate::launch::slurm::jobs;
use crate::launch::{Endpoint, MAX_LINE, Observed};
use crate::oidc::{Extra, OidcSection, identity, is_enough};

/// The endpoint line that a session's program prints, alone or in a Pod's log. A parsed line must survive a round trip.
pub fn endpoint(said: &[u8]) {
    if let Ok(log) = std::str::from_utf8(said)
        && let Ok(Some(line)) = endpoints::line(log)
    {
        assert!(matches!(Endpoint::read(line.as_bytes()), Ok(Some(_))));
    }
    let Ok(Some(endpoint)) = Endpoint::read(said) else {
        return;
    };
    let mut written = serde_json::to_vec(&endpoint).unwrap_or_default();
    written.push(b'\n');
    // The line may exceed the limit when it is written again, because an address may be longer in its canonical form.
    if written.len() <= MAX_LINE {
        assert!(matches!(Endpoint::read(&written), Ok(Some(again)) if again == endpoint));
    }
}

/// The applications file. The name of each accepted application can be used in URLs and labels, and the text of each
/// problem is one line.
pub fn applications(text: &str) {
    let read = match catalogue::read(text, Path::new("/pictures")) {
        Ok(read) => read,
        Err(why) => {
            assert!(!why.contains(char::is_control), "{why:?}");
            return;
        }
    };
    let mut names = BTreeSet::new();
    for application in &read.all {
        let name = application.name.as_str();
        let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        assert!(
            (1..=63).contains(&name.len()) && name.bytes().all(allowed),
            "{name:?}"
        );
        assert!(names.insert(name), "duplicate {name:?}");
        assert!(!application.command.is_empty());
    }
    for problem in &read.problems {
        assert!(!problem.contains(char::is_control), "{problem:?}");
    }
}

/// The configuration of a provider with groups.
const OIDC: &str = "issuer = \"https://id.example\"\nclient_id = \"c\"\naddress = \"https://p.example\"\n\
                    users = \"players\"\noperators = \"operators\"";

/// A provider's claims. Only users in a configured group may get access.
pub fn claims(bytes: &[u8]) {
    static SECTION: LazyLock<OidcSection> =
        LazyLock::new(|| toml::from_str(OIDC).expect("a valid table"));
    let section = &*SECTION;
    let mut all = Vec::new();
    if let Ok(claims) = serde_json::from_slice::<IdTokenClaims<Extra, CoreGenderClaim>>(bytes) {
        all.extend(serde_json::to_value(&claims));
    }
    let claims_info =
        UserInfoClaims::<Extra, CoreGenderClaim>::from_json::<std::io::Error>(bytes, None);
    if let Ok(claims) = claims_info {
        all.extend(serde_json::to_value(&claims));
    }
    let enough = all.iter().filter(|of| is_enough(section, of)).count();
    let identity = identity(section, "subject", &all);
    let named = |group| all.iter().any(|of| mentions(of, group));
    assert!(!identity.allowed || named("players") || named("operators"));
    assert!(identity.operator != Some(true) || named("operators"));
    assert!(enough == 0 || all.iter().any(|of| of.get("groups").is_some()));
    assert_eq!(identity.subject, "https://id.example subject");
}

/// Whether a text occurs anywhere in the value.
fn mentions(value: &Value, text: &str) -> bool {
    match value {
        Value::String(of) => of == text,
        Value::Array(of) => of.iter().any(|of| mentions(of, text)),
        Value::Object(of) => of.values().any(|of| mentions(of, text)),
        _ => false,
    }
}

/// The device cookie. A forged cookie is not accepted. The cookie that the portal sends back contains a valid entry and
/// only characters that a header permits, and has at most 512 bytes.
pub fn device_cookie(text: &str) {
    let devices = Devices::with_key(b"of the fuzz target");
    assert_eq!(devices.read(Some(text), "ada"), None);
    let written = devices.written(Some(text), "ada");
    assert!(devices.read(Some(&written), "ada").is_some());
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".~".contains(&byte);
    assert!(
        written.len() <= 512 && written.bytes().all(plain),
        "{written:?}"
    );
}

/// The output of Slurm's commands: the list of jobs, the description of one job, and the list of nodes.
pub fn slurm(text: &str) {
    let mut sessions: Vec<Observed> = Vec::new();
    for job in jobs::read(text) {
        let observed = job.observed(jobs::exit_code(text));
        assert!(!(job.is_active() && job.has_ended()));
        assert_eq!(Comment::read(&job.comment.to_string()), job.comment);
        sessions.push(observed);
    }
    let servers = jobs::servers(text, &sessions);
    let names: BTreeSet<_> = servers.iter().map(|of| &of.name).collect();
    assert_eq!(names.len(), servers.len(), "one server per node");
}

/// A Pod from the API server.
pub fn pod(bytes: &[u8]) {
    let Ok(pod) = serde_json::from_slice::<Pod>(bytes) else {
        return;
    };
    let _ = pod::gpus(&pod, "nvidia.com/gpu");
    if let Some(observed) = phase::observed(&pod) {
        assert_eq!(pod.metadata.name, Some(pod::name(observed.session)));
    }
}
