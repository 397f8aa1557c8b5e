//! Secrets and settings shared by all portals of one database.

use super::{Store, StoreError};

/// Setting that exists while new sessions are refused.
const DRAINING: &str = "draining";

impl Store {
    /// The stored secret with this name; if there is none, stores `new` and returns it. Portals that start concurrently get
    /// the same secret.
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

    /// Refuses or accepts new sessions from now on.
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
