//! Secrets and settings that all portals with the same database share.

use super::{Store, StoreError};

/// Name of the setting that exists while the portals refuse new sessions.
const DRAINING: &str = "draining";

impl Store {
    /// Returns the stored secret with this name. If there is none, `new` is stored and returned. Portals that start
    /// concurrently get the same secret.
    pub(crate) async fn key(&self, name: &str, new: &str) -> Result<String, StoreError> {
        sqlx::query("INSERT INTO keys (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING")
            .bind(name)
            .bind(new)
            .execute(&self.pool)
            .await?;
        let kept = sqlx::query_scalar("SELECT value FROM keys WHERE name = $1");
        Ok(kept.bind(name).fetch_one(&self.pool).await?)
    }

    /// Whether new sessions are refused because an operator is draining the portal.
    pub(crate) async fn is_draining(&self) -> Result<bool, StoreError> {
        let kept = sqlx::query_scalar("SELECT value FROM keys WHERE name = $1");
        let kept: Option<String> = kept.bind(DRAINING).fetch_optional(&self.pool).await?;
        Ok(kept.is_some())
    }

    /// Sets whether the portals refuse new sessions from now on.
    pub(crate) async fn drain(&self, draining: bool) -> Result<(), StoreError> {
        let change = match draining {
            true => "INSERT INTO keys (name, value) VALUES ($1, 'yes') ON CONFLICT DO NOTHING",
            false => "DELETE FROM keys WHERE name = $1",
        };
        sqlx::query(change)
            .bind(DRAINING)
            .execute(&self.pool)
            .await?;
        Ok(())
    }
}
