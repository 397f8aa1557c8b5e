//! The portal's database: accounts, log-ins, the key of tickets, what sessions there were. Not what sessions there
//! are: that is known to the engine alone.
//!
//! SQLite in a file, or PostgreSQL by its URL where several portals share one. All statements are understood by
//! both.

mod attempts;
mod history;
mod keys;
mod logins;
mod schema;
mod users;

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sqlx::any::{AnyConnectOptions, AnyPoolOptions};
use sqlx::{AnyPool, Executor as _};

pub(crate) use self::history::{Noted, Past};
pub(crate) use self::logins::Login;
pub(crate) use self::users::{MAX_NAME, User};

/// How long a request waits for the database before it says so. Longer than SQLite lets one writer wait for
/// another, which is 5 s.
const PATIENCE: Duration = Duration::from_secs(8);

/// Connections at a time; a guess: SQLite writes one at a time in any case.
const CONNECTIONS: u32 = 8;

/// Why the database did not do it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// It can't be opened.
    #[error("the database {at} can't be opened: {why}")]
    Open { at: String, why: sqlx::Error },
    /// It was made by a newer program.
    #[error("the database has version {0}, and this program knows {known}: install the newer one", known = schema::VERSION)]
    Newer(i64),
    /// There is an account of this name.
    #[error("there is an account {0:?} already")]
    Exists(String),
    /// The person of the provider has another account.
    #[error("that person of the provider has the account {0:?} already")]
    Linked(String),
    /// Such a name is none.
    #[error("{0:?} is no name of an account: letters, digits, . _ @ and -, {MAX_NAME} at most")]
    Name(String),
    /// It is locked, full, damaged or gone.
    #[error("the database does not answer: {0}")]
    Failed(sqlx::Error),
}

/// Not as its source: its text has all that it says.
impl From<sqlx::Error> for StoreError {
    fn from(why: sqlx::Error) -> StoreError {
        StoreError::Failed(why)
    }
}

/// The database. Clones are the same.
#[derive(Clone)]
pub(crate) struct Store {
    pool: AnyPool,
}

/// Where it is.
#[derive(Clone, Debug)]
pub(crate) enum Place<'a> {
    /// SQLite, in this file.
    File(&'a Path),
    /// PostgreSQL, at this URL.
    Url(&'a str),
}

impl Store {
    /// Opens it, and brings its tables to this program's version.
    pub(crate) async fn open(place: Place<'_>) -> Result<Store, StoreError> {
        sqlx::any::install_default_drivers();
        let (url, at) = match place {
            Place::File(path) => (
                format!("sqlite://{}?mode=rwc", path.display()),
                path.display().to_string(),
            ),
            // Without what may be a password.
            Place::Url(url) => (
                url.to_owned(),
                url.rsplit_once('@')
                    .map_or("given", |(_, at)| at)
                    .to_owned(),
            ),
        };
        let failed = |why| StoreError::Open {
            at: at.clone(),
            why,
        };
        let options: AnyConnectOptions = url.parse().map_err(failed)?;
        let sqlite = matches!(place, Place::File(_));
        let pool = AnyPoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(PATIENCE)
            .after_connect(move |connection, _| {
                Box::pin(async move {
                    if sqlite {
                        // Readers don't wait for a writer, and what was answered stays after a loss of power.
                        let pragmas = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
                                       PRAGMA foreign_keys = ON; PRAGMA busy_timeout = 5000";
                        connection.execute(pragmas).await?;
                    }
                    Ok(())
                })
            })
            .connect_with(options)
            .await
            .map_err(failed)?;
        schema::migrate(&pool, sqlite).await?;
        Ok(Store { pool })
    }

    /// Whether it answers.
    pub(crate) async fn check(&self) -> Result<(), StoreError> {
        sqlx::query("SELECT count(*) FROM users")
            .execute(&self.pool)
            .await?;
        Ok(())
    }
}

/// Seconds since 1970 by the clock of the world.
pub(crate) fn now() -> i64 {
    seconds(SystemTime::now())
}

pub(crate) fn seconds(at: SystemTime) -> i64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
