//! The tables, and their versions.

use sqlx::AnyPool;

use super::StoreError;

/// The statements that upgrade the tables to each version. The statements of released versions never change; later
/// versions are appended.
const STEPS: [&[&str]; 4] = [
    &[
        "CREATE TABLE users (
        name TEXT PRIMARY KEY,
        password TEXT NOT NULL,
        operator BIGINT NOT NULL,
        sessions BIGINT,
        subject TEXT UNIQUE,
        created BIGINT NOT NULL)",
        "CREATE TABLE logins (
        token TEXT PRIMARY KEY,
        user_name TEXT NOT NULL REFERENCES users (name) ON DELETE CASCADE,
        csrf TEXT NOT NULL,
        created BIGINT NOT NULL,
        seen BIGINT NOT NULL)",
        "CREATE TABLE history (
        session TEXT PRIMARY KEY,
        user_name TEXT NOT NULL,
        application TEXT NOT NULL,
        launched BIGINT NOT NULL,
        ended BIGINT,
        server TEXT,
        code BIGINT,
        why TEXT,
        shared BIGINT NOT NULL)",
        "CREATE INDEX history_of_user ON history (user_name, launched)",
        "CREATE TABLE keys (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    ],
    &[
        "ALTER TABLE logins ADD COLUMN until BIGINT",
        "CREATE TABLE attempts (
        state TEXT PRIMARY KEY,
        browser TEXT NOT NULL,
        nonce TEXT NOT NULL,
        verifier TEXT NOT NULL,
        created BIGINT NOT NULL)",
    ],
    &["ALTER TABLE history ADD COLUMN log TEXT"],
    &["ALTER TABLE users ADD COLUMN disabled BIGINT NOT NULL DEFAULT 0"],
];

/// The version of the tables that this program uses.
#[expect(clippy::cast_possible_wrap, reason = "there are few")]
pub(super) const VERSION: i64 = STEPS.len() as i64;

/// Key of the PostgreSQL advisory lock that a portal holds while it upgrades tables. The key is an arbitrary value,
/// because other programs may use locks in the same database.
const LOCK: i64 = 0x6f75_7672;

/// Upgrades the tables to [`VERSION`] atomically. If several portals start at the same time, the first one upgrades,
/// and the others wait.
pub(super) async fn migrate(pool: &AnyPool, sqlite: bool) -> Result<(), StoreError> {
    let mut transaction = match sqlite {
        // A transaction that starts with a read cannot become a writer while another writer is active (SQLite,
        // "Transactions", 2.2).
        true => pool.begin_with("BEGIN IMMEDIATE").await?,
        false => {
            let mut transaction = pool.begin().await?;
            sqlx::query("SELECT pg_advisory_xact_lock($1)")
                .bind(LOCK)
                .execute(&mut *transaction)
                .await?;
            transaction
        }
    };
    sqlx::query("CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)")
        .execute(&mut *transaction)
        .await?;
    let have: i64 = sqlx::query_scalar("SELECT coalesce(max(version), 0) FROM schema_version")
        .fetch_one(&mut *transaction)
        .await?;
    if have > VERSION {
        return Err(StoreError::Newer(have));
    }
    for (step, number) in STEPS.iter().zip(1..).filter(|(_, number)| *number > have) {
        for statement in step.iter().copied() {
            sqlx::query(statement).execute(&mut *transaction).await?;
        }
        sqlx::query("INSERT INTO schema_version (version) VALUES ($1)")
            .bind::<i64>(number)
            .execute(&mut *transaction)
            .await?;
    }
    transaction.commit().await?;
    Ok(())
}
