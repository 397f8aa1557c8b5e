//! Accounts.

use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::{Store, StoreError, now};

/// Maximum length of an account name in bytes; a guess: long enough for most e-mail addresses.
pub(crate) const MAX_NAME: usize = 64;

/// An account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct User {
    /// The log-in name.
    pub(crate) name: String,
    /// Argon2 hash in PHC string format; empty if the account has no password.
    pub(crate) password: String,
    /// Whether the user may see and stop the sessions of all users.
    pub(crate) operator: bool,
    /// Maximum number of concurrent sessions; `None` for the configured default.
    pub(crate) sessions: Option<u32>,
}

/// An account, and whether it is disabled. The user of a disabled account cannot log in and has no sessions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Account {
    pub(crate) user: User,
    pub(crate) disabled: bool,
}

impl Store {
    /// Adds an account. `subject` identifies the account's user at a provider, as returned by [`crate::oidc::key`].
    pub(crate) async fn add_user(
        &self,
        user: &User,
        subject: Option<&str>,
    ) -> Result<(), StoreError> {
        check(&user.name)?;
        let added = sqlx::query(
            "INSERT INTO users (name, password, operator, sessions, created, subject)
             VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING",
        )
        .bind(&user.name)
        .bind(&user.password)
        .bind(i64::from(user.operator))
        .bind(user.sessions.map(i64::from))
        .bind(now())
        .bind(subject)
        .execute(&self.pool)
        .await?;
        match added.rows_affected() {
            0 => Err(StoreError::Exists(user.name.clone())),
            _ => Ok(()),
        }
    }

    /// The account with this name; `None` if it does not exist or is disabled.
    pub(crate) async fn user(&self, name: &str) -> Result<Option<User>, StoreError> {
        let row = sqlx::query(
            "SELECT name, password, operator, sessions FROM users WHERE name = $1 AND disabled = 0",
        )
        .bind(name)
        .fetch_optional(&self.pool)
        .await?;
        Ok(row.as_ref().map(read).transpose()?)
    }

    /// The account that is linked to this user of a provider; `None` if there is none or it is disabled.
    pub(crate) async fn user_of(&self, subject: &str) -> Result<Option<User>, StoreError> {
        let row =
            sqlx::query("SELECT name, password, operator, sessions FROM users WHERE subject = $1 AND disabled = 0")
                .bind(subject)
                .fetch_optional(&self.pool)
                .await?;
        Ok(row.as_ref().map(read).transpose()?)
    }

    /// The name of the account that is linked to this user of a provider, even if the account is disabled.
    pub(crate) async fn name_of(&self, subject: &str) -> Result<Option<String>, StoreError> {
        let name = sqlx::query_scalar("SELECT name FROM users WHERE subject = $1")
            .bind(subject)
            .fetch_optional(&self.pool)
            .await?;
        Ok(name)
    }

    /// Links an account to a user of a provider, or removes the link. Ends the account's log-ins. Returns whether the
    /// account exists.
    pub(crate) async fn link(&self, name: &str, subject: Option<&str>) -> Result<bool, StoreError> {
        if let Some(subject) = subject
            && let Some(other) = self.name_of(subject).await?
            && other != name
        {
            return Err(StoreError::Linked(other));
        }
        let change = "UPDATE users SET subject = $2 WHERE name = $1";
        self.log_in_otherwise(change, name, subject).await
    }

    /// Sets or clears the operator role of an account.
    pub(crate) async fn set_operator(&self, name: &str, operator: bool) -> Result<(), StoreError> {
        sqlx::query("UPDATE users SET operator = $2 WHERE name = $1")
            .bind(name)
            .bind(i64::from(operator))
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Sets the rights of an account. Disabling it ends its log-ins. Returns whether the account exists.
    pub(crate) async fn set_account(&self, account: &Account) -> Result<bool, StoreError> {
        let Account { user, disabled } = account;
        let mut transaction = self.pool.begin().await?;
        let changed = sqlx::query(
            "UPDATE users SET operator = $2, sessions = $3, disabled = $4 WHERE name = $1",
        )
        .bind(&user.name)
        .bind(i64::from(user.operator))
        .bind(user.sessions.map(i64::from))
        .bind(i64::from(*disabled))
        .execute(&mut *transaction)
        .await?;
        if *disabled {
            sqlx::query("DELETE FROM logins WHERE user_name = $1")
                .bind(&user.name)
                .execute(&mut *transaction)
                .await?;
        }
        transaction.commit().await?;
        Ok(changed.rows_affected() > 0)
    }

    /// All accounts, sorted by name.
    pub(crate) async fn accounts(&self) -> Result<Vec<Account>, StoreError> {
        let all = "SELECT name, password, operator, sessions, disabled FROM users ORDER BY name";
        let rows = sqlx::query(all).fetch_all(&self.pool).await?;
        let account = |row: &AnyRow| {
            Ok(Account {
                user: read(row)?,
                disabled: row.try_get::<i64, _>("disabled")? != 0,
            })
        };
        Ok(rows
            .iter()
            .map(account)
            .collect::<Result<_, sqlx::Error>>()?)
    }

    /// Sets an account's password and ends its log-ins. Returns whether the account exists.
    pub(crate) async fn set_password(
        &self,
        name: &str,
        password: &str,
    ) -> Result<bool, StoreError> {
        let change = "UPDATE users SET password = $2 WHERE name = $1";
        self.log_in_otherwise(change, name, Some(password)).await
    }

    /// Changes the password or the provider link of an account, and ends the account's log-ins. Returns whether the
    /// account exists.
    async fn log_in_otherwise(
        &self,
        change: &'static str,
        name: &str,
        value: Option<&str>,
    ) -> Result<bool, StoreError> {
        let mut transaction = self.pool.begin().await?;
        let changed = sqlx::query(change)
            .bind(name)
            .bind(value)
            .execute(&mut *transaction)
            .await?;
        sqlx::query("DELETE FROM logins WHERE user_name = $1")
            .bind(name)
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await?;
        Ok(changed.rows_affected() > 0)
    }

    /// Removes an account with its log-ins. Returns whether it existed.
    pub(crate) async fn remove_user(&self, name: &str) -> Result<bool, StoreError> {
        let removed = sqlx::query("DELETE FROM users WHERE name = $1")
            .bind(name)
            .execute(&self.pool)
            .await?;
        Ok(removed.rows_affected() > 0)
    }
}

/// Checks an account name. Its characters are restricted, because names are used in URLs, file names, engine labels and
/// logs.
fn check(name: &str) -> Result<(), StoreError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._@-".contains(c);
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    match begins && name.len() <= MAX_NAME && name.chars().all(allowed) {
        true => Ok(()),
        false => Err(StoreError::Name(name.to_owned())),
    }
}

pub(super) fn read(row: &AnyRow) -> Result<User, sqlx::Error> {
    let sessions: Option<i64> = row.try_get("sessions")?;
    Ok(User {
        name: row.try_get("name")?,
        password: row.try_get("password")?,
        operator: row.try_get::<i64, _>("operator")? != 0,
        sessions: sessions.and_then(|n| u32::try_from(n).ok()),
    })
}
