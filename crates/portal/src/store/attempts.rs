//! Log-ins by a provider that have begun, on any of the portals of one database.

use sqlx::Row as _;

use super::{Store, StoreError, now};
use crate::oidc::Secrets;

/// How long a person may take at the provider, in seconds; a guess.
const LIFE: i64 = 600;

/// Log-ins under way at most. Each is some 300 bytes, and anybody can begin one; beyond it nobody can, until the
/// oldest have run out.
const MOST: i64 = 10_000;

impl Store {
    /// Keeps what a log-in's end must match. `browser` is the hash of what the browser was given. False: there
    /// are too many.
    pub(crate) async fn add_attempt(
        &self,
        attempt: &Secrets,
        browser: &str,
    ) -> Result<bool, StoreError> {
        sqlx::query("DELETE FROM attempts WHERE created < $1")
            .bind(now() - LIFE)
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
        .bind(MOST)
        .execute(&self.pool)
        .await?;
        Ok(added.rows_affected() > 0)
    }

    /// Takes a log-in that this browser has begun; it can be taken once. Another browser takes nothing.
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
        .bind(now() - LIFE)
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
