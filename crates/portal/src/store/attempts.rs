//! Pending log-ins with a provider. All portals that use one database share them.

use sqlx::Row as _;

use super::{Store, StoreError, now};
use crate::oidc::Secrets;

/// How long a user may take to log in at the provider, in seconds; a guess.
const LIFETIME: i64 = 600;

/// Maximum number of pending log-ins. Each takes about 300 bytes, and any client can start one. At the limit, new
/// log-ins fail until the oldest ones expire.
const MAX_PENDING: i64 = 10_000;

impl Store {
    /// Stores the values to verify at the end of a log-in. `browser` is the hash of the browser's secret. Returns false
    /// if the limit is reached.
    pub(crate) async fn add_attempt(
        &self,
        attempt: &Secrets,
        browser: &str,
    ) -> Result<bool, StoreError> {
        sqlx::query("DELETE FROM attempts WHERE created < $1")
            .bind(now() - LIFETIME)
            .execute(&self.pool)
            .await?;
        let added = sqlx::query(
            "INSERT INTO attempts (state, browser, nonce, verifier, created)
             SELECT $1, $2, $3, $4, $5 WHERE (SELECT count(*) FROM attempts) < $6",
        )
        .bind(&attempt.state)
        .bind(browser)
        .bind(&attempt.nonce)
        .bind(&attempt.verifier)
        .bind(now())
        .bind(MAX_PENDING)
        .execute(&self.pool)
        .await?;
        Ok(added.rows_affected() > 0)
    }

    /// Removes a pending log-in and returns its values. Returns `None` if this browser has not started it, or if it has
    /// expired.
    pub(crate) async fn take_attempt(
        &self,
        state: &str,
        browser: &str,
    ) -> Result<Option<Secrets>, StoreError> {
        let row = sqlx::query(
            "DELETE FROM attempts WHERE state = $1 AND browser = $2 AND created >= $3
             RETURNING nonce, verifier",
        )
        .bind(state)
        .bind(browser)
        .bind(now() - LIFETIME)
        .fetch_optional(&self.pool)
        .await?;
        let Some(row) = row else { return Ok(None) };
        Ok(Some(Secrets {
            state: state.to_owned(),
            nonce: row.try_get("nonce")?,
            verifier: row.try_get("verifier")?,
        }))
    }
}
