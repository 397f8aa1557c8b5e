//! What a portal reads of others: of browsers, of the programs of sessions, of the operator's file of applications, of a provider
//! of OpenID Connect, of the engines that sessions run on.

use openuvr_portal::fuzzing;

/// What the program of a session has said so far.
pub fn session_endpoint(bytes: &[u8]) {
    fuzzing::endpoint(bytes);
}

/// The file of applications.
pub fn applications(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        fuzzing::applications(text);
    }
}

/// The claims of a token whose signature is right, or of a provider's answer.
pub fn oidc_claims(bytes: &[u8]) {
    fuzzing::claims(bytes);
}

/// The cookie by which a browser that logged in before is known.
pub fn device_cookie(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        fuzzing::device_cookie(text);
    }
}

/// What Slurm's commands print, which is read whatever it is.
pub fn slurm_output(bytes: &[u8]) {
    fuzzing::slurm(&String::from_utf8_lossy(bytes));
}

/// A Pod, as Kubernetes describes it.
pub fn pods(bytes: &[u8]) {
    fuzzing::pod(bytes);
}
