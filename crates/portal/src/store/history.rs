//! The history of sessions. It also states which sessions are shared.

use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::{Store, StoreError, now};
use crate::launch::SessionId;

/// A session in the history.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PastSession {
    pub(crate) session: String,
    pub(crate) user: String,
    pub(crate) application: String,
    /// Time of the request in seconds since 1970.
    pub(crate) launched: i64,
    /// When the portal observed the session's end, in seconds since 1970; `None` if it has not ended.
    pub(crate) ended: Option<i64>,
    /// The server that ran the session.
    pub(crate) server: Option<String>,
    /// Exit code of the session's program, if known.
    pub(crate) code: Option<i64>,
    /// Why it ended.
    pub(crate) why: Option<String>,
    /// Whether all users may watch the session.
    pub(crate) shared: bool,
}

/// Owner of a requested session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LaunchOwner {
    /// The caller owns the session.
    Own,
    /// The caller owns the session, and the session's end has been recorded.
    Over,
    /// Another user owns the session.
    Others,
}

impl Store {
    /// Records that a session was requested, unless the request is already recorded. Returns the session's owner.
    pub(crate) async fn note_launch(
        &self,
        session: SessionId,
        user: &str,
        application: &str,
    ) -> Result<LaunchOwner, StoreError> {
        sqlx::query(
            "INSERT INTO history (session, user_name, application, launched, shared)
             VALUES ($1, $2, $3, $4, 0) ON CONFLICT DO NOTHING",
        )
        .bind(session.to_string())
        .bind(user)
        .bind(application)
        .bind(now())
        .execute(&self.pool)
        .await?;
        let row = sqlx::query("SELECT user_name, ended FROM history WHERE session = $1")
            .bind(session.to_string())
            .fetch_one(&self.pool)
            .await?;
        let owner: String = row.try_get("user_name")?;
        let ended: Option<i64> = row.try_get("ended")?;
        Ok(match ended {
            _ if owner != user => LaunchOwner::Others,
            None => LaunchOwner::Own,
            Some(_) => LaunchOwner::Over,
        })
    }

    /// Records the session's end, unless an end is already recorded.
    pub(crate) async fn note_end(
        &self,
        session: SessionId,
        server: Option<&str>,
        code: Option<i32>,
        why: &str,
    ) -> Result<(), StoreError> {
        sqlx::query(
            "UPDATE history SET ended = $2, server = $3, code = $4, why = $5
             WHERE session = $1 AND ended IS NULL",
        )
        .bind(session.to_string())
        .bind(now())
        .bind(server)
        .bind(code.map(i64::from))
        .bind(why)
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// Sessions of this account, newest first, including unfinished ones.
    pub(crate) async fn history(
        &self,
        user: &str,
        at_most: u32,
    ) -> Result<Vec<PastSession>, StoreError> {
        let rows = sqlx::query(
            "SELECT session, user_name, application, launched, ended, server, code, why, shared
             FROM history WHERE user_name = $1 ORDER BY launched DESC, session LIMIT $2",
        )
        .bind(user)
        .bind(i64::from(at_most))
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.iter().map(read).collect::<Result<_, _>>()?)
    }

    /// All sessions without a recorded end.
    pub(crate) async fn unfinished(&self) -> Result<Vec<PastSession>, StoreError> {
        let rows = sqlx::query(
            "SELECT session, user_name, application, launched, ended, server, code, why, shared
             FROM history WHERE ended IS NULL",
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.iter().map(read).collect::<Result<_, _>>()?)
    }

    /// Stores the end of a session's log, unless the database already contains one.
    pub(crate) async fn note_log(&self, session: SessionId, log: &str) -> Result<(), StoreError> {
        sqlx::query("UPDATE history SET log = $2 WHERE session = $1 AND log IS NULL")
            .bind(session.to_string())
            .bind(log)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// The owner of a session, and the stored end of its log. `None` if the session does not exist.
    pub(crate) async fn log(
        &self,
        session: SessionId,
    ) -> Result<Option<(String, Option<String>)>, StoreError> {
        let row = sqlx::query("SELECT user_name, log FROM history WHERE session = $1")
            .bind(session.to_string())
            .fetch_optional(&self.pool)
            .await?;
        let read = |row: AnyRow| Ok((row.try_get("user_name")?, row.try_get("log")?));
        row.map(read)
            .transpose()
            .map_err(|why: sqlx::Error| why.into())
    }

    /// Sets whether all users may watch a session.
    pub(crate) async fn share(&self, session: SessionId, shared: bool) -> Result<(), StoreError> {
        sqlx::query("UPDATE history SET shared = $2 WHERE session = $1")
            .bind(session.to_string())
            .bind(i64::from(shared))
            .execute(&self.pool)
            .await?;
        Ok(())
    }
}

fn read(row: &AnyRow) -> Result<PastSession, sqlx::Error> {
    Ok(PastSession {
        session: row.try_get("session")?,
        user: row.try_get("user_name")?,
        application: row.try_get("application")?,
        launched: row.try_get("launched")?,
        ended: row.try_get("ended")?,
        server: row.try_get("server")?,
        code: row.try_get("code")?,
        why: row.try_get("why")?,
        shared: row.try_get::<i64, _>("shared")? != 0,
    })
}
