//! The cluster account for a user's jobs.

use rustix::process::geteuid;
use tokio::process::Command;
use tokio::time::timeout;

use super::commands::LIMIT;
use crate::launch::LaunchError;

/// The first UID of regular accounts: `UID_MIN` in login.defs(5). Lower UIDs belong to the system, including root.
const FIRST: u32 = 1000;

/// Checks that jobs may be submitted under the account with this name, and returns the name.
///
/// # Errors
/// Returns an error if the account does not exist or is a system account, if the portal does not run as root, or if the
/// name service does not respond.
pub(super) async fn account(name: &str) -> Result<String, LaunchError> {
    if !geteuid().is_root() {
        return Err(LaunchError::Denied(
            "slurm.as_user submits jobs as the user, which only root may do: run the portal as root, or \
            set as_user = false"
                .to_owned(),
        ));
    }
    let denied = |why: &str| LaunchError::Denied(format!("the cluster account {name:?} {why}"));
    match number(name).await? {
        None => Err(denied(
            "does not exist; ask the cluster's administrator to create it",
        )),
        Some(number) if number < FIRST => Err(denied("is a system account")),
        Some(_) => Ok(name.to_owned()),
    }
}

/// The UID of an account, from the system's name service (nsswitch.conf(5)); `None` if the account does not exist.
async fn number(name: &str) -> Result<Option<u32>, LaunchError> {
    let unavailable = |why: &str| {
        LaunchError::Unavailable(format!(
            "cannot look up the cluster account {name:?}: {why}"
        ))
    };
    let mut getent = Command::new("getent");
    getent.args(["passwd", "--", name]).kill_on_drop(true);
    let asked = match timeout(LIMIT, getent.output()).await {
        Ok(asked) => asked.map_err(|why| unavailable(&format!("getent: {why}")))?,
        Err(_) => return Err(unavailable("the name service does not respond")),
    };
    let line = String::from_utf8_lossy(&asked.stdout);
    let mut fields = line.split(':');
    // getent also accepts a UID, and then returns an entry with a different name.
    let exists = asked.status.success() && fields.next() == Some(name);
    Ok(exists.then(|| fields.nth(1)?.parse().ok()).flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn accounts_of_the_system_submit_no_jobs() {
        assert_eq!(number("root").await, Ok(Some(0)));
        for none in ["0", "no-such-account", "", "-h", "root:x"] {
            assert_eq!(number(none).await, Ok(None), "{none:?}");
        }
        assert!(matches!(account("root").await, Err(LaunchError::Denied(_))));
        assert!(matches!(account("0").await, Err(LaunchError::Denied(_))));
    }
}
