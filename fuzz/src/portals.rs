//! A portal's parsers of data from others: browsers, session programs, the operator's file of applications,
//! an OpenID Connect provider, and the engines that run sessions.

use openuvr_portal::fuzzing;

/// The output of a session's program so far.
pub fn session_endpoint(bytes: &[u8]) {
    fuzzing::endpoint(bytes);
}

/// The file of applications.
pub fn applications(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        fuzzing::applications(text);
    }
}

/// The claims of a token with a valid signature, or of a provider's response.
pub fn oidc_claims(bytes: &[u8]) {
    fuzzing::claims(bytes);
}

/// The cookie of a browser that logged in before.
pub fn device_cookie(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        fuzzing::device_cookie(text);
    }
}

/// The output of Slurm's commands, which is accepted in any form.
pub fn slurm_output(bytes: &[u8]) {
    fuzzing::slurm(&String::from_utf8_lossy(bytes));
}

/// A Pod description of Kubernetes.
pub fn pods(bytes: &[u8]) {
    fuzzing::pod(bytes);
}
