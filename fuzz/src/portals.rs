//! A portal's parsers of external data: from browsers, session programs, the operator's application list, an OpenID
//! Connect provider, and the engines that run sessions.

use openuvr_portal::fuzzing;

/// A session program's output, which may still be incomplete.
pub fn session_endpoint(bytes: &[u8]) {
    fuzzing::endpoint(bytes);
}

/// The file with the list of applications.
pub fn applications(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        fuzzing::applications(text);
    }
}

/// The claims in a token with a valid signature, or in a response of the provider.
pub fn oidc_claims(bytes: &[u8]) {
    fuzzing::claims(bytes);
}

/// The device cookie of a browser that has logged in before.
pub fn device_cookie(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        fuzzing::device_cookie(text);
    }
}

/// The output of Slurm's commands. No output may cause a panic.
pub fn slurm_output(bytes: &[u8]) {
    fuzzing::slurm(&String::from_utf8_lossy(bytes));
}

/// A Pod description of Kubernetes.
pub fn pods(bytes: &[u8]) {
    fuzzing::pod(bytes);
}
