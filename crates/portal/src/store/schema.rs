//! The tables, and their versions.

use sqlx::AnyPool;

use super::StoreError;
use super::file::DatabaseFile;

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

/// Key of the PostgreSQL advisory lock that a portal holds while it upgrades tables. The key is an arbitrary value, so
/// that it differs from the keys of other programs in the same database.
const LOCK: i64 = 0x6f75_7672;

/// Upgrades the tables to [`VERSION`] atomically. If several portals start at the same time, the first one upgrades,
/// and the others wait. A database in a file is copied first, so that the previous version of the program can use the
/// copy.
pub(super) async fn migrate(pool: &AnyPool, file: Option<&DatabaseFile>) -> Result<(), StoreError> {
    let mut transaction = match file {
        // A transaction that starts with a read cannot become a writer while another writer is active (SQLite,
        // "Transactions", 2.2).
        Some(_) => pool.begin_with("BEGIN IMMEDIATE").await?,
        None => {
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
        return Err(StoreError::Newer {
            have,
            remedy: remedy(file),
        });
    }
    if let Some(file) = file
        && (1..VERSION).contains(&have)
    {
        // The transaction has written nothing yet, and keeps other writers out.
        file.copy(pool, have).await?;
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

/// The advice to the operator if the database has a newer version than this program.
fn remedy(file: Option<&DatabaseFile>) -> String {
    let mut older = (1..=VERSION).rev();
    let copy = file.and_then(|file| older.find_map(|version| file.existing_copy(version)));
    match copy {
        Some(copy) => format!(
            "install the newer program, or move portal.sqlite* away and rename the older copy {} to portal.sqlite",
            copy.display()
        ),
        None => "install the newer program".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt as _;
    use std::path::Path;

    use super::*;
    use crate::store::{DatabaseLocation, Store};

    /// Statements that reverse the last of [`STEPS`].
    const DOWN: [&str; 2] = [
        "ALTER TABLE users DROP COLUMN disabled",
        "DELETE FROM schema_version WHERE version = 4",
    ];

    async fn open(file: &Path) -> Result<Store, StoreError> {
        Store::open(DatabaseLocation::File(file)).await
    }

    async fn version(store: &Store) -> i64 {
        let version = sqlx::query_scalar("SELECT max(version) FROM schema_version");
        version.fetch_one(&store.pool).await.unwrap()
    }

    /// Makes a database of the previous version with one secret, and returns the secret.
    async fn previous(file: &Path) -> String {
        let store = open(file).await.unwrap();
        let secret = store.key("secret", "of the older portal").await.unwrap();
        for statement in DOWN {
            sqlx::query(statement).execute(&store.pool).await.unwrap();
        }
        store.pool.close().await;
        secret
    }

    #[tokio::test]
    async fn an_upgrade_keeps_a_private_copy_of_the_older_tables() {
        assert_eq!(VERSION, 4, "DOWN takes back the step to version 4");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("portal.sqlite");
        let copy = folder.path().join("portal-version-3.sqlite");
        let secret = previous(&file).await;
        assert!(!copy.exists());
        let store = open(&file).await.unwrap();
        assert_eq!(version(&store).await, 4);
        assert_eq!(store.key("secret", "new").await.unwrap(), secret);
        store.pool.close().await;
        assert_eq!(fs::metadata(&copy).unwrap().mode() & 0o777, 0o600);
        // The copy has the older version, so a portal that opens the copy upgrades it again.
        fs::rename(&copy, &file).unwrap();
        let store = open(&file).await.unwrap();
        assert!(copy.exists());
        assert_eq!(store.key("secret", "new").await.unwrap(), secret);
        // After an upgrade, the folder has only the database and the copy.
        store.pool.close().await;
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[tokio::test]
    async fn without_a_copy_nothing_is_upgraded() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("portal.sqlite");
        let secret = previous(&file).await;
        // The copy cannot replace this folder.
        let copy = folder.path().join("portal-version-3.sqlite");
        fs::create_dir(&copy).unwrap();
        fs::write(copy.join("file"), "").unwrap();
        let before = fs::read(&file).unwrap();
        let why = open(&file).await.err().unwrap().to_string();
        assert!(why.contains("the database is unchanged"), "{why}");
        assert_eq!(why.lines().count(), 1, "{why}");
        assert_eq!(fs::read(&file).unwrap(), before);
        fs::remove_dir_all(&copy).unwrap();
        let store = open(&file).await.unwrap();
        assert_eq!(store.key("secret", "new").await.unwrap(), secret);
    }

    #[tokio::test]
    async fn a_newer_database_is_refused_and_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("portal.sqlite");
        let store = open(&file).await.unwrap();
        let newer = "INSERT INTO schema_version (version) VALUES ($1)";
        let newer = sqlx::query(newer).bind(VERSION + 1);
        newer.execute(&store.pool).await.unwrap();
        store.pool.close().await;
        let before = fs::read(&file).unwrap();
        let refusal = open(&file).await.err().unwrap().to_string();
        let line = "the database has version 5, but this program supports versions up to 4: install the newer program";
        assert_eq!(refusal, line);
        let copy = folder.path().join("portal-version-4.sqlite");
        fs::write(&copy, "a copy").unwrap();
        let refusal = open(&file).await.err().unwrap().to_string();
        assert!(refusal.starts_with(line), "{refusal}");
        assert!(refusal.contains(&copy.display().to_string()), "{refusal}");
        assert_eq!(refusal.lines().count(), 1, "{refusal}");
        assert_eq!(fs::read(&file).unwrap(), before);
    }
}
