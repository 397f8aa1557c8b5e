//! Log-ins: which browser is whose. Of a browser's secret only a hash is kept.

use sqlx::Row as _;

use super::{Store, StoreError, User, now};

/// How long a log-in lives that nobody uses, in seconds: two weeks; a guess.
const IDLE: i64 = 14 * 24 * 3600;

/// How long it lives at most, in seconds: 90 days; a guess.
const LIFE: i64 = 90 * 24 * 3600;

/// Its last use is written at most this often, in seconds.
const NOTED: i64 = 600;

/// Log-ins of one account at most; the oldest gives way. A guess.
const EACH: i64 = 32;

/// Who a browser is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Login {
    /// Whose.
    pub(crate) user: User,
    /// What its requests carry beside the cookie.
    pub(crate) csrf: String,
}

impl Store {
    /// Keeps a log-in. `token` is the hash of what the browser has.
    pub(crate) async fn add_login(
        &self,
        token: &str,
        user: &str,
        csrf: &str,
    ) -> Result<(), StoreError> {
        let now = now();
        let mut transaction = self.pool.begin().await?;
        sqlx::query("DELETE FROM logins WHERE seen < $1 OR created < $2")
            .bind(now - IDLE)
            .bind(now - LIFE)
            .execute(&mut *transaction)
            .await?;
        sqlx::query(
            "DELETE FROM logins WHERE user_name = $1 AND token NOT IN
             (SELECT token FROM logins WHERE user_name = $1 ORDER BY seen DESC, token LIMIT $2)",
        )
        .bind(user)
        .bind(EACH - 1)
        .execute(&mut *transaction)
        .await?;
        sqlx::query("INSERT INTO logins (token, user_name, csrf, created, seen) VALUES ($1, $2, $3, $4, $4)")
            .bind(token)
            .bind(user)
            .bind(csrf)
            .bind(now)
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await?;
        Ok(())
    }

    /// Whose log-in this is, if it still lives.
    pub(crate) async fn login(&self, token: &str) -> Result<Option<Login>, StoreError> {
        let now = now();
        let row = sqlx::query(
            "SELECT name, password, operator, sessions, csrf, seen FROM logins
             JOIN users ON name = user_name WHERE token = $1 AND seen >= $2 AND logins.created >= $3",
        )
        .bind(token)
        .bind(now - IDLE)
        .bind(now - LIFE)
        .fetch_optional(&self.pool)
        .await?;
        let Some(row) = row else { return Ok(None) };
        let seen: i64 = row.try_get("seen")?;
        if seen < now - NOTED {
            sqlx::query("UPDATE logins SET seen = $2 WHERE token = $1")
                .bind(token)
                .bind(now)
                .execute(&self.pool)
                .await?;
        }
        Ok(Some(Login {
            user: super::users::read(&row)?,
            csrf: row.try_get("csrf")?,
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
