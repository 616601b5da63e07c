//! Which rights and settings of PostgreSQL Feedline lacks: `feedline doctor`.

use tokio_postgres::Client;

use super::{PostgresOptions, TEMPORARY_FILE, classified, connect_for_command};
use crate::ledger::{LedgerError, Result};

/// What was found out about a server and the rights of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresFindings {
    /// The version of the server.
    pub version: String,
    /// What Feedline cannot work without.
    pub missing: Vec<String>,
    /// What an operator may want to change.
    pub advice: Vec<String>,
}

/// Rights of the user, as texts: those that are not there. UPDATE on a sequence is that of `setval`: a new incarnation
/// skips numbers.
const RIGHTS: &str = "\
    SELECT 'CREATE on schema ' || coalesce(current_schema(), 'public')
    WHERE NOT coalesce(has_schema_privilege(current_schema(), 'CREATE'), false)
    UNION ALL
    SELECT 'USAGE on schema ' || coalesce(current_schema(), 'public')
    WHERE NOT coalesce(has_schema_privilege(current_schema(), 'USAGE'), false)
    UNION ALL
    SELECT upper(kind) || ' on table ' || c.relname
    FROM pg_class c, unnest('{select,insert,update,delete}'::text[]) AS kind
    WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())
      AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND NOT has_table_privilege(c.oid, kind)
    UNION ALL
    SELECT upper(kind) || ' on sequence ' || c.relname
    FROM pg_class c, unnest('{usage,update}'::text[]) AS kind
    WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())
      AND c.relkind = 'S' AND NOT has_sequence_privilege(c.oid, kind)
    UNION ALL
    SELECT 'EXECUTE on function ' || p.proname
    FROM pg_proc p
    WHERE p.pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())
      AND p.proname LIKE 'feedline!_%' ESCAPE '!' AND NOT has_function_privilege(p.oid, 'EXECUTE')";

/// Settings of the server, by name.
const SETTINGS: &str = "\
    SELECT name, setting FROM pg_settings WHERE name IN (
        'server_version', 'server_version_num', 'server_encoding', 'max_connections', 'superuser_reserved_connections',
        'fsync', 'full_page_writes', 'autovacuum', 'transaction_read_only', 'in_hot_standby')";

/// The difference between the clock of the server and this one from which it is worth a word, in milliseconds.
const SKEW: i64 = 1_000;

/// Connects and looks. Changes nothing.
///
/// # Errors
/// If the server cannot be reached or refuses the login.
pub async fn postgres_rights(options: &PostgresOptions, now: u64) -> Result<PostgresFindings> {
    let client = connect_for_command(options).await?;
    let looking = look(&client, options, now);
    match tokio::time::timeout(options.timeout, looking).await {
        Ok(found) => found.map_err(|error| classified(&error)),
        Err(_) => Err(LedgerError::Unreachable(format!("no answer within {:?}", options.timeout))),
    }
}

async fn look(
    client: &Client,
    options: &PostgresOptions,
    now: u64,
) -> std::result::Result<PostgresFindings, tokio_postgres::Error> {
    let rows = client.query_typed(SETTINGS, &[]).await?;
    let settings: Vec<(String, String)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let setting = |name: &str| {
        settings.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str()).unwrap_or_default()
    };
    let mut missing: Vec<String> = client
        .query_typed(RIGHTS, &[])
        .await?
        .iter()
        .map(|row| format!("the right {}", row.get::<_, &str>(0)))
        .collect();
    let mut advice = Vec::new();
    if setting("server_version_num").parse().is_ok_and(|version: u32| version < 140_000) {
        missing.push(format!("PostgreSQL 14 or later: this is {}", setting("server_version")));
    }
    if setting("server_encoding") != "UTF8" {
        missing.push(format!("a database in UTF8: this one is in {}", setting("server_encoding")));
    }
    if setting("transaction_read_only") == "on" || setting("in_hot_standby") == "on" {
        missing.push("a server that accepts writes: this one is read only".to_owned());
    }
    for (name, harm) in [
        ("fsync", "a power failure can destroy the database"),
        ("full_page_writes", "a power failure can destroy the database"),
        ("autovacuum", "tables grow and get slow"),
    ] {
        if setting(name) == "off" {
            advice.push(format!("{name} is off: {harm}"));
        }
    }
    let number = |name: &str| setting(name).parse::<usize>().unwrap_or(0);
    let free = number("max_connections").saturating_sub(number("superuser_reserved_connections"));
    if free < 2 * options.connections + 2 {
        advice.push(format!(
            "max_connections is {}: with ledger.connections = {} it is enough for {} nodes",
            setting("max_connections"),
            options.connections,
            free / (options.connections + 1)
        ));
    }
    if let Err(error) = client.query_typed(TEMPORARY_FILE, &[]).await {
        if error.code().is_none() {
            return Err(error);
        }
        missing.push(format!("space for a temporary file: {}", super::errors::text(&error)));
    }
    let clock = client.query_typed_one("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint", &[]).await?;
    let ahead = now.cast_signed() - clock.get::<_, i64>(0);
    if ahead.abs() > SKEW {
        advice.push(format!("the clock of this machine is {ahead} ms ahead of the server's"));
    }
    Ok(PostgresFindings { version: setting("server_version").to_owned(), missing, advice })
}
