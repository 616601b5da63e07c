//! Every table of both schemas is exported, or listed here.

use super::*;

/// The tables that are not exported, each with the reason.
const NOT_EXPORTED: &[&str] = &[
    // Made from the exported rows.
    "author_posts",
    "audience_posts",
    "audience_counts",
    "comment_posts",
    "favourite_holders",
    "followers",
    "post_alerts_of",
    "restricted_by",
    "revocations_end",
    // Work that runs, and the state of its owners.
    "jobs",
    "pulled",
    "pulled_end",
    "pulled_topics",
    "like_positions",
    "notification_remains",
    "nodes",
    "work_nodes",
    "work_partitions",
    // Of one ledger or one day.
    "idempotency",
    "meta",
];

/// The tables of a schema, each with its columns.
fn schema(sql: &str) -> Vec<(String, Vec<String>)> {
    let lines = sql.lines().map(|line| line.split("--").next().unwrap_or_default());
    let sql: Vec<&str> = lines.collect();
    let mut tables = Vec::new();
    for line in sql {
        if let Some(name) = line.strip_prefix("CREATE TABLE ") {
            tables.push((name.trim_end_matches(" (").to_owned(), Vec::new()));
        } else if let (Some(column), Some((_, columns))) = (line.strip_prefix("    "), tables.last_mut()) {
            let name = column.split_whitespace().next().unwrap_or_default().trim_matches('"');
            let is_column = column.starts_with(|c: char| c.is_ascii_lowercase() || c == '"');
            if is_column && !columns.contains(&name.to_owned()) {
                columns.push(name.to_owned());
            }
        } else if line.starts_with("CREATE ") || line.starts_with("DO ") {
            // What follows is no table.
            tables.push((String::new(), Vec::new()));
        }
    }
    tables.retain(|(name, _)| !name.is_empty());
    tables
}

#[test]
fn every_column_of_both_schemas_is_exported_or_listed_here() {
    for (sql, is_postgres) in [
        (include_str!("../migrations/sqlite/0001_initial.sql"), false),
        (include_str!("../migrations/postgres/0001_initial.sql"), true),
    ] {
        let tables = schema(sql);
        assert!(tables.len() > 40, "{tables:?}");
        for (name, columns) in tables.iter().filter(|(name, _)| !NOT_EXPORTED.contains(&name.as_str())) {
            let table = TABLES.iter().find(|table| table.name == name);
            let table = table.unwrap_or_else(|| panic!("{name} is not exported"));
            let known: Vec<String> = table
                .columns
                .iter()
                .map(|(column, _)| match is_postgres {
                    true => table.postgres_column(column).trim_matches('"').to_owned(),
                    false => table.sqlite_column(column),
                })
                .collect();
            for column in columns {
                // Made from the body; of a process that has ended; the one row; of requests, which live for a day.
                let is_made = matches!(
                    (name.as_str(), column.as_str()),
                    ("posts", "topics" | "visibility")
                        | ("topics", "period")
                        | ("push_queue", "holder")
                        | ("outlet_end", "one")
                        | ("filters" | "lists", "reserved")
                );
                assert!(is_made || known.contains(column), "{name}.{column} is not exported");
            }
        }
    }
}
