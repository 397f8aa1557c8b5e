//! The account of the cluster that a person's jobs are submitted by.

use rustix::process::geteuid;
use tokio::process::Command;

use crate::launch::LaunchError;

/// The first number of accounts of people: `UID_MIN` in login.defs(5). Those below are the system's, root among them.
const FIRST: u32 = 1000;

/// The account of this name, if jobs may be submitted by it.
///
/// # Errors
/// There is none, it is the system's, or the portal may not use other accounts.
pub(super) async fn account(name: &str) -> Result<String, LaunchError> {
    if !geteuid().is_root() {
        return Err(LaunchError::Denied(
            "the portal submits jobs as their person (slurm.as_user), which only root may: run the portal as root, or \
             set as_user = false"
                .to_owned(),
        ));
    }
    let denied =
        |why: &str| LaunchError::Denied(format!("the account {name:?} of this cluster: {why}"));
    match number(name).await {
        None => Err(denied(
            "there is none; the cluster's administrator makes one",
        )),
        Some(number) if number < FIRST => Err(denied("it is one of the system")),
        Some(_) => Ok(name.to_owned()),
    }
}

/// The number of an account, by the machine's own name service (nsswitch.conf(5)).
async fn number(name: &str) -> Option<u32> {
    let asked = Command::new("getent")
        .args(["passwd", "--", name])
        .output()
        .await
        .ok()
        .filter(|of| of.status.success())?;
    let line = String::from_utf8(asked.stdout).ok()?;
    let mut fields = line.split(':');
    // An account may also be asked for by its number: then this is another name.
    (fields.next()? == name).then_some(())?;
    fields.nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn accounts_of_the_system_submit_no_jobs() {
        assert_eq!(number("root").await, Some(0));
        for none in ["0", "no-such-account", "", "-h", "root:x"] {
            assert_eq!(number(none).await, None, "{none:?}");
        }
        assert!(matches!(account("root").await, Err(LaunchError::Denied(_))));
        assert!(matches!(account("0").await, Err(LaunchError::Denied(_))));
    }
}
