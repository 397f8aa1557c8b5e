//! Log-ins of browsers. Only a hash of a browser's secret is stored.

use sqlx::Row as _;
use tracing::warn;

use super::{Store, StoreError, User, now};

/// Lifetime of an unused log-in in seconds: two weeks; a guess.
const IDLE_LIFETIME: i64 = 14 * 24 * 3600;

/// Maximum lifetime of a log-in in seconds: 90 days; a guess.
const LIFETIME: i64 = 90 * 24 * 3600;

/// Minimum interval in seconds between updates of a log-in's last use.
const UPDATE_INTERVAL: i64 = 600;

/// Maximum number of log-ins per account; a guess. A new log-in beyond the limit removes the one that has been unused
/// for longest.
const PER_ACCOUNT: i64 = 32;

/// A browser's log-in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Login {
    /// The user who logged in.
    pub(crate) user: User,
    /// The CSRF token that the browser's requests must contain.
    pub(crate) csrf: String,
    /// Whether the user logged in through a provider.
    pub(crate) provider: bool,
}

impl Store {
    /// Stores a log-in. `token` is the hash of the browser's secret. `until` is the expiry of a log-in through a
    /// provider, in seconds since 1970.
    pub(crate) async fn add_login(
        &self,
        token: &str,
        user: &str,
        csrf: &str,
        until: Option<i64>,
    ) -> Result<(), StoreError> {
        let now = now();
        let mut transaction = self.pool.begin().await?;
        sqlx::query("DELETE FROM logins WHERE seen < $1 OR created < $2 OR until < $3")
            .bind(now - IDLE_LIFETIME)
            .bind(now - LIFETIME)
            .bind(now)
            .execute(&mut *transaction)
            .await?;
        sqlx::query(
            "DELETE FROM logins WHERE user_name = $1 AND token NOT IN
             (SELECT token FROM logins WHERE user_name = $1 ORDER BY seen DESC, token LIMIT $2)",
        )
        .bind(user)
        .bind(PER_ACCOUNT - 1)
        .execute(&mut *transaction)
        .await?;
        sqlx::query(
            "INSERT INTO logins (token, user_name, csrf, created, seen, until)
             VALUES ($1, $2, $3, $4, $4, $5)",
        )
        .bind(token)
        .bind(user)
        .bind(csrf)
        .bind(now)
        .bind(until)
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(())
    }

    /// The log-in with this token, if it is valid. If an operator disables the account while the password is being
    /// checked, the log-in may exist, but is invalid.
    pub(crate) async fn login(&self, token: &str) -> Result<Option<Login>, StoreError> {
        let now = now();
        let row = sqlx::query(
            "SELECT name, password, operator, sessions, csrf, seen, until FROM logins
             JOIN users ON name = user_name WHERE token = $1 AND seen >= $2 AND logins.created >= $3
             AND (until IS NULL OR until >= $4) AND disabled = 0",
        )
        .bind(token)
        .bind(now - IDLE_LIFETIME)
        .bind(now - LIFETIME)
        .bind(now)
        .fetch_optional(&self.pool)
        .await?;
        let Some(row) = row else { return Ok(None) };
        let seen: i64 = row.try_get("seen")?;
        if seen < now - UPDATE_INTERVAL {
            let updated = sqlx::query("UPDATE logins SET seen = $2 WHERE token = $1")
                .bind(token)
                .bind(now)
                .execute(&self.pool)
                .await;
            // The error is only logged, so that a user can stop sessions even if the disk is full.
            if let Err(why) = updated {
                warn!("cannot record the use of a log-in: {why}");
            }
        }
        Ok(Some(Login {
            user: super::users::read(&row)?,
            csrf: row.try_get("csrf")?,
            provider: row.try_get::<Option<i64>, _>("until")?.is_some(),
        }))
    }

    /// Ends a log-in.
    pub(crate) async fn remove_login(&self, token: &str) -> Result<(), StoreError> {
        sqlx::query("DELETE FROM logins WHERE token = $1")
            .bind(token)
            .execute(&self.pool)
            .await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::store::{Account, DatabaseLocation};

    /// A database with the account `ada`.
    async fn store(folder: &Path) -> (Store, User) {
        let file = folder.join("portal.sqlite");
        let store = Store::open(DatabaseLocation::File(&file)).await.unwrap();
        let user = User {
            name: "ada".to_owned(),
            password: String::new(),
            operator: false,
            sessions: None,
        };
        store.add_user(&user, None).await.unwrap();
        (store, user)
    }

    #[tokio::test]
    async fn a_log_in_to_a_disabled_account_is_invalid() {
        let folder = tempfile::tempdir().unwrap();
        let (store, user) = store(folder.path()).await;
        let mut account = Account {
            user,
            disabled: true,
        };
        store.set_account(&account).await.unwrap();
        // The password was checked before the account was disabled.
        let added = store.add_login("token", "ada", "csrf", None);
        added.await.unwrap();
        assert_eq!(store.login("token").await.unwrap(), None);
        account.disabled = false;
        store.set_account(&account).await.unwrap();
        assert!(store.login("token").await.unwrap().is_some());
    }

    #[tokio::test]
    async fn a_log_in_is_valid_if_its_use_cannot_be_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let (store, _) = store(folder.path()).await;
        let added = store.add_login("token", "ada", "csrf", None);
        added.await.unwrap();
        for statement in [
            "UPDATE logins SET seen = seen - 1000",
            "CREATE TRIGGER no_space BEFORE UPDATE ON logins BEGIN SELECT RAISE(FAIL, 'disk full'); END",
        ] {
            sqlx::query(statement).execute(&store.pool).await.unwrap();
        }
        assert!(store.login("token").await.unwrap().is_some());
    }
}
