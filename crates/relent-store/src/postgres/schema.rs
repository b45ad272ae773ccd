//! The tables: made, and brought up to date, by the first node that needs them.
//!
//! All that is missing is done in one transaction, under a lock of its own, so that nodes which start
//! together do it once. The lock ends with the transaction: it also works through a pooler.
//! REQ-S7.

use std::time::Duration;

use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::failure::describe;
use super::link;
use super::place::{ConnectError, Place, Role};
use crate::version::Migrated;

/// Each brings a schema from the version before to its own: the first makes version 1.
const MIGRATIONS: &[&str] = &[
    include_str!("../../migrations/postgres/0001_first.sql"),
    include_str!("../../migrations/postgres/0002_outbox.sql"),
    include_str!("../../migrations/postgres/0003_members.sql"),
];
pub(super) const OLDEST_SERVER: i64 = 130_000;
const PATIENCE: Duration = Duration::from_secs(60);

const BEGIN: &str = "BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0; \
     SELECT pg_advisory_xact_lock(hashtextextended('relent schema', 0));";
const META: &str = "CREATE TABLE relent.meta (name text PRIMARY KEY, value bigint NOT NULL)";
/// Not by `to_regclass`, which may remember from before the lock that there is none.
const HAS_META: &str = "SELECT EXISTS (SELECT FROM pg_catalog.pg_class c \
     JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
     WHERE n.nspname = $1 AND c.relname = 'meta')";
const VERSION: &str = "SELECT coalesce(max(value), 0) FROM relent.meta WHERE name = 'version'";
const SET_VERSION: &str = "INSERT INTO relent.meta (name, value) VALUES ('version', $1) \
     ON CONFLICT (name) DO UPDATE SET value = excluded.value";
const SERVER: &str = "SELECT current_setting('server_version_num')::bigint";

/// Makes or brings up to date what is in this schema.
pub(super) async fn migrate(place: &Place) -> Result<Migrated, ConnectError> {
    let client = open(place).await?;
    let migrated = tokio::time::timeout(PATIENCE, migrate_with(place, &client)).await;
    migrated.map_err(|_| ConnectError::Unavailable("the schema was not made in time".to_owned()))?
}

/// Sees that the schema is there and as it should be, and changes nothing.
pub(super) async fn check(place: &Place) -> Result<(), ConnectError> {
    let client = open(place).await?;
    let found = tokio::time::timeout(PATIENCE, version(place, &client)).await;
    let found = found.map_err(|_| ConnectError::Unavailable("it did not answer".to_owned()))?;
    let failed = |source| ConnectError::Migrate { schema: place.schema.clone(), source };
    let (schema, found, known) = (place.schema.clone(), found.map_err(failed)?, known());
    match found {
        Some(found) if found == known => Ok(()),
        Some(found) if found > known => Err(ConnectError::Newer { schema, found, known }),
        found => Err(ConnectError::Behind { schema, found: found.unwrap_or(0), known }),
    }
}

/// The version that is made.
pub(super) fn known() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

async fn open(place: &Place) -> Result<Client, ConnectError> {
    let opened = link::open(place, Role::Plain, None).await;
    opened.map_err(|failure| ConnectError::Unavailable(failure.into_text()))
}

async fn migrate_with(place: &Place, client: &Client) -> Result<Migrated, ConnectError> {
    let failed = |source| ConnectError::Migrate { schema: place.schema.clone(), source };
    let server: i64 = number(client, SERVER).await.map_err(failed)?;
    if server < OLDEST_SERVER {
        let text = format!("it is version {}, expected 13 or later", server / 10_000);
        return Err(ConnectError::Unavailable(text));
    }
    let known = known();
    if version(place, client).await.map_err(failed)? == Some(known) {
        return Ok(Migrated { from: Some(known), to: known });
    }
    client.batch_execute(BEGIN).await.map_err(failed)?;
    let from = version(place, client).await.map_err(failed)?;
    let found = match from {
        Some(found) => found,
        None => {
            let schema = format!("CREATE SCHEMA IF NOT EXISTS {}", place.schema);
            client.batch_execute(&schema).await.map_err(failed)?;
            client.batch_execute(&place.sql(META)).await.map_err(failed)?;
            0
        }
    };
    if found > known {
        return Err(ConnectError::Newer { schema: place.schema.clone(), found, known });
    }
    let missing = MIGRATIONS.get(usize::try_from(found).unwrap_or_default()..);
    for migration in missing.unwrap_or_default() {
        client.batch_execute(&place.sql(migration)).await.map_err(|source| {
            tracing::error!(error = describe(&source), "a migration failed");
            failed(source)
        })?;
    }
    let set = place.sql(SET_VERSION);
    client.execute_typed(&set, &[(&known, Type::INT8)]).await.map_err(failed)?;
    client.batch_execute("COMMIT").await.map_err(failed)?;
    Ok(Migrated { from, to: known })
}

/// The version of the tables; `None` if there are none.
pub(super) async fn version(
    place: &Place,
    client: &Client,
) -> Result<Option<i64>, tokio_postgres::Error> {
    let has_meta = client.query_typed(HAS_META, &[(&place.schema, Type::TEXT)]).await?;
    if has_meta.first().is_none_or(|row| !row.get::<_, bool>(0)) {
        return Ok(None);
    }
    number(client, &place.sql(VERSION)).await.map(Some)
}

async fn number(client: &Client, sql: &str) -> Result<i64, tokio_postgres::Error> {
    let rows = client.query_typed(sql, &[]).await?;
    Ok(rows.first().map_or(0, |row| row.get(0)))
}
