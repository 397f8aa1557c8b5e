//! Secrets that all portals of one database share.

use super::{Store, StoreError};

impl Store {
    /// The secret of this name: the one that is kept, or else `new`, which is kept from now on. Of two portals that
    /// start at once both get the same.
    pub(crate) async fn key(&self, name: &str, new: &str) -> Result<String, StoreError> {
        sqlx::query("INSERT INTO keys (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING")
            .bind(name)
            .bind(new)
            .execute(&self.pool)
            .await?;
        let kept = sqlx::query_scalar("SELECT value FROM keys WHERE name = $1");
        Ok(kept.bind(name).fetch_one(&self.pool).await?)
    }
}
