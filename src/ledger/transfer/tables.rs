//! The tables that are exported, and the statements that read and write their rows.

/// The type of a column, in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Number,
    Text,
    /// `true` or `false`. SQLite has 0 and 1.
    Flag,
    /// A list of texts. SQLite has it as JSON.
    Texts,
    /// A list of numbers. SQLite has it as JSON.
    Numbers,
}

use Kind::{Flag, Number, Numbers, Text, Texts};

/// A table that is exported. Its name is the type of its rows.
#[derive(Debug)]
pub struct Table {
    pub(super) name: &'static str,
    columns: &'static [(&'static str, Kind)],
    /// Of PostgreSQL: the same data by another key, as insertions that read rows from `v`.
    copies: &'static [&'static str],
}

/// A table without copies.
const fn table(name: &'static str, columns: &'static [(&'static str, Kind)]) -> Table {
    Table { name, columns, copies: &[] }
}

/// The tables, each after those that it refers to. Not exported are rows of work that runs (jobs, leases, the pull
/// log), which a new deployment makes from the rest, and records of requests that live for a day.
pub(super) const TABLES: &[Table] = &[
    table(
        "users",
        &[
            ("id", Text),
            ("handle", Text),
            ("name", Text),
            ("avatar", Text),
            ("created_at", Number),
            ("followers", Number),
            ("following", Number),
            ("posts", Number),
            ("locked", Flag),
            ("erased_at", Number),
        ],
    ),
    table("profiles", &[("user", Text), ("bio", Text), ("data", Text), ("pinned", Text), ("quotable", Text)]),
    table("accounts", &[("user", Text), ("password", Text), ("generation", Number)]),
    table("user_terms", &[("term", Text), ("user", Text)]),
    table(
        "revocations",
        &[
            ("seq", Number),
            ("kind", Text),
            ("subject", Text),
            ("owner", Text),
            ("value", Number),
            ("spared", Text),
            ("at", Number),
            ("expires_at", Number),
        ],
    ),
    table(
        "standings",
        &[("seq", Number), ("user", Text), ("level", Text), ("reason", Text), ("until", Number), ("at", Number)],
    ),
    table("erasures", &[("user", Text), ("at", Number), ("due_at", Number), ("quiet_since", Number)]),
    Table {
        name: "follows",
        columns: &[("seq", Number), ("follower", Text), ("followee", Text), ("at", Number)],
        copies: &["followers (followee, follower, seq) SELECT v->>'followee', v->>'follower', (v->>'seq')::bigint"],
    },
    table(
        "follow_requests",
        &[("seq", Number), ("follower", Text), ("followee", Text), ("at", Number), ("shown_at", Number)],
    ),
    table("follow_rejections", &[("followee", Text), ("follower", Text), ("at", Number)]),
    Table {
        name: "restrictions",
        columns: &[("maker", Text), ("target", Text), ("kind", Text), ("at", Number), ("until", Number)],
        copies: &["restricted_by (target, kind, maker) SELECT v->>'target', v->>'kind', v->>'maker'"],
    },
    Table {
        name: "post_alerts",
        columns: &[("user", Text), ("author", Text), ("at", Number)],
        copies: &["post_alerts_of (author, owner) SELECT v->>'author', v->>'user'"],
    },
    table(
        "filters",
        &[
            ("id", Number),
            ("owner", Text),
            ("words", Texts),
            ("action", Text),
            ("contexts", Texts),
            ("whole_word", Flag),
            ("until", Number),
            ("created_at", Number),
        ],
    ),
    table("lists", &[("id", Number), ("owner", Text), ("name", Text), ("exclusive", Flag), ("created_at", Number)]),
    table("list_users", &[("list", Number), ("member", Text), ("at", Number)]),
    table("list_topics", &[("list", Number), ("topic", Text), ("at", Number)]),
    table("topic_follows", &[("follower", Text), ("topic", Text), ("at", Number)]),
    Table {
        name: "posts",
        columns: &[("id", Number), ("author", Text), ("body", Text), ("deleted_at", Number)],
        copies: &["author_posts (author, post) SELECT v->>'author', (v->>'id')::bigint"],
    },
    table("post_topics", &[("topic", Text), ("post", Number), ("public", Flag)]),
    table("topics", &[("name", Text), ("folded", Text), ("posts", Number), ("last", Number)]),
    table("read_markers", &[("user", Text), ("post", Number)]),
    table(
        "post_counts",
        &[
            ("post", Number),
            ("likes", Number),
            ("likes_version", Number),
            ("comments", Number),
            ("favourites", Number),
            ("reposts", Number),
            ("quotes", Number),
        ],
    ),
    table("reposts", &[("post", Number), ("author", Text), ("repost", Number)]),
    table(
        "quotes",
        &[("quote", Number), ("author", Text), ("post", Number), ("post_author", Text), ("detached", Flag)],
    ),
    Table {
        name: "comments",
        columns: &[
            ("id", Number),
            ("post", Number),
            ("parent", Number),
            ("depth", Number),
            ("author", Text),
            ("text", Text),
            ("mentions", Texts),
            ("replies", Number),
            ("likes", Number),
            ("likes_version", Number),
            ("edited_at", Number),
        ],
        copies: &["comment_posts (comment, post) SELECT (v->>'id')::bigint, (v->>'post')::bigint"],
    },
    table(
        "removed_comments",
        &[
            ("comment", Number),
            ("post", Number),
            ("author", Text),
            ("text", Text),
            ("mentions", Texts),
            ("reason", Text),
            ("at", Number),
        ],
    ),
    table(
        "reports",
        &[
            ("id", Number),
            ("reporter", Text),
            ("kind", Text),
            ("object", Text),
            ("about", Text),
            ("reason", Text),
            ("text", Text),
            ("at", Number),
            ("closed_at", Number),
            ("action", Text),
        ],
    ),
    table("likes", &[("seq", Number), ("user", Text), ("post", Number), ("at", Number)]),
    table("comment_likes", &[("user", Text), ("comment", Number), ("at", Number)]),
    Table {
        name: "favourites",
        columns: &[
            ("seq", Number),
            ("user", Text),
            ("type", Text),
            ("object", Text),
            ("at", Number),
            ("private", Flag),
        ],
        copies: &["favourite_holders (type, object, owner, seq, at, private) \
                   SELECT v->>'of', v->>'object', v->>'user', (v->>'seq')::bigint, (v->>'at')::bigint, \
                   (v->>'private')::boolean"],
    },
    table("favourites_of_users", &[("user", Text), ("type", Text), ("count", Number)]),
    table("favourites_of_objects", &[("type", Text), ("object", Text), ("count", Number)]),
    table("events", &[("seq", Number), ("at", Number), ("event", Text), ("pending", Number)]),
    table(
        "notified",
        &[("user", Text), ("latest", Number), ("groups", Number), ("read_upto", Number), ("seen_upto", Number)],
    ),
    table(
        "notifications",
        &[
            ("id", Number),
            ("user", Text),
            ("kind", Text),
            ("object", Text),
            ("seq", Number),
            ("place", Number),
            ("position", Number),
            ("people", Number),
            ("created_at", Number),
            ("updated_at", Number),
        ],
    ),
    table(
        "notification_people",
        &[
            ("user", Text),
            ("notification", Number),
            ("person", Text),
            ("seq", Number),
            ("event", Number),
            ("comments", Numbers),
            ("ended", Flag),
        ],
    ),
    table("app_notifications", &[("user", Text), ("object", Text), ("content", Text)]),
    table("muted_conversations", &[("user", Text), ("post", Number), ("at", Number)]),
    table(
        "devices",
        &[
            ("user", Text),
            ("id", Text),
            ("address", Text),
            ("target", Text),
            ("locale", Text),
            ("time_zone", Text),
            ("app_version", Text),
            ("registered_at", Number),
            ("seen_at", Number),
            ("used_at", Number),
            ("session", Text),
            ("generation", Number),
            ("issued_at", Number),
        ],
    ),
    table("push_preferences", &[("user", Text), ("preferences", Text)]),
    table(
        "push_queue",
        &[
            ("user", Text),
            ("device", Text),
            ("item", Number),
            ("kind", Text),
            ("seq", Number),
            ("state", Number),
            ("due_at", Number),
            ("attempts", Number),
            ("queued_at", Number),
            ("sent_at", Number),
            ("sends", Number),
            ("first_tried_at", Number),
        ],
    ),
    table(
        "outlet",
        &[
            ("position", Number),
            ("at", Number),
            ("published_at", Number),
            ("kind", Text),
            ("owner", Text),
            ("body", Text),
        ],
    ),
    table("outlet_end", &[("last", Number), ("trimmed", Number)]),
    table("outlet_consumers", &[("name", Text), ("position", Number)]),
    table(
        "outlet_held",
        &[
            ("consumer", Text),
            ("position", Number),
            ("at", Number),
            ("kind", Text),
            ("owner", Text),
            ("body", Text),
            ("held_at", Number),
            ("attempts", Number),
            ("due_at", Number),
            ("reason", Text),
        ],
    ),
    table(
        "quarantine",
        &[
            ("id", Number),
            ("kind", Text),
            ("name", Text),
            ("content", Text),
            ("reason", Text),
            ("attempts", Number),
            ("at", Number),
            ("is_retried", Flag),
        ],
    ),
];

/// The member of a row in the file: `type` is that of the row.
fn member(column: &str) -> &str {
    if column == "type" { "of" } else { column }
}

impl Table {
    /// The statement that reads the rows from SQLite as JSON.
    pub(super) fn sqlite_select(&self) -> String {
        let value = |(column, kind): &(&str, Kind)| {
            let expression = match (self.name, *column) {
                ("notification_people", "user") => "n.user".to_owned(),
                ("notification_people", column) => format!("notification_people.{column}"),
                _ => self.sqlite_column(column),
            };
            let value = match kind {
                Number | Text => expression,
                Flag => format!("json(iif({expression}, 'true', 'false'))"),
                Texts | Numbers => format!("json({expression})"),
            };
            format!("'{}', {value}", member(column))
        };
        let values: Vec<String> = self.columns.iter().map(value).collect();
        let join = match self.name {
            "notification_people" => " JOIN notifications n ON n.id = notification_people.notification",
            _ => "",
        };
        format!("SELECT json_object('type', '{0}', {1}) FROM {0}{join}", self.name, values.join(", "))
    }

    /// The statement that inserts rows into SQLite: `?1` is a JSON array of them.
    pub(super) fn sqlite_insert(&self) -> String {
        if self.name == "outlet_end" {
            return "UPDATE outlet_end SET last = max(last, v.value ->> 'last'), \
                    trimmed = max(trimmed, v.value ->> 'trimmed') FROM json_each(?1) v \
                    WHERE last < v.value ->> 'last' OR trimmed < v.value ->> 'trimmed'"
                .to_owned();
        }
        let columns = || {
            let is_there = |column: &&(&str, Kind)| !(self.name == "notification_people" && column.0 == "user");
            self.columns.iter().filter(is_there)
        };
        let names: Vec<String> = columns().map(|(column, _)| self.sqlite_column(column)).collect();
        let value = |(column, kind): &(&str, Kind)| match kind {
            Number | Text | Flag => format!("value ->> '{}'", member(column)),
            Texts | Numbers => format!("nullif(value -> '{}', 'null')", member(column)),
        };
        let values: Vec<String> = columns().map(value).collect();
        let (names, values) = (names.join(", "), values.join(", "));
        // Without `WHERE true`, SQLite takes ON for that of a join.
        let name = self.name;
        format!("INSERT INTO {name} ({names}) SELECT {values} FROM json_each(?1) WHERE true ON CONFLICT DO NOTHING")
    }

    fn sqlite_column(&self, column: &str) -> String {
        match (self.name, column) {
            ("outlet_consumers", "position") => "cursor".to_owned(),
            _ => column.to_owned(),
        }
    }

    /// The statement that reads the rows from PostgreSQL as JSON.
    pub(super) fn postgres_select(&self) -> String {
        let value = |(column, _): &(&str, Kind)| format!("'{}', {}", member(column), self.postgres_column(column));
        let values: Vec<String> = self.columns.iter().map(value).collect();
        format!("SELECT json_build_object('type', '{0}', {1})::text FROM {0}", self.name, values.join(", "))
    }

    /// The statements that insert rows into PostgreSQL, those of the table first: `$1` is a JSON array of them.
    pub(super) fn postgres_inserts(&self) -> Vec<String> {
        const ROWS: &str = "FROM jsonb_array_elements($1::text::jsonb) AS rows (v)";
        if self.name == "outlet_end" {
            return vec![format!(
                "UPDATE outlet_end SET last = greatest(last, (v->>'last')::bigint), \
                 trimmed = greatest(trimmed, (v->>'trimmed')::bigint) {ROWS} \
                 WHERE last < (v->>'last')::bigint OR trimmed < (v->>'trimmed')::bigint"
            )];
        }
        let mut names: Vec<String> = self.columns.iter().map(|(column, _)| self.postgres_column(column)).collect();
        let value = |(column, kind): &(&str, Kind)| {
            let member = member(column);
            let list = |of: &str, elements: &str| {
                format!(
                    "CASE WHEN jsonb_typeof(v->'{member}') = 'array' \
                     THEN ARRAY(SELECT {elements} FROM jsonb_array_elements_text(v->'{member}') AS l (e))::{of} END"
                )
            };
            match kind {
                Number => format!("(v->>'{member}')::bigint"),
                Text => format!("v->>'{member}'"),
                Flag => format!("(v->>'{member}')::boolean"),
                Texts => list("text[]", "e"),
                Numbers => list("bigint[]", "e::bigint"),
            }
        };
        let mut values: Vec<String> = self.columns.iter().map(value).collect();
        if self.name == "posts" {
            // Of a deleted post nothing is known.
            names.extend(["topics".to_owned(), "visibility".to_owned()]);
            values.push(
                "CASE WHEN v->>'body' IS NULL THEN '{}' ELSE ARRAY(
                    SELECT json_array_elements_text(coalesce((v->>'body')::json -> 'topics', '[]'))) END"
                    .to_owned(),
            );
            values.push(r#"coalesce(((v->>'body')::json -> 'visibility')::text, '"public"')"#.to_owned());
        }
        let (names, values) = (names.join(", "), values.join(", "));
        let own = format!(
            "INSERT INTO {} ({names}) OVERRIDING SYSTEM VALUE SELECT {values} {ROWS} ON CONFLICT DO NOTHING",
            self.name
        );
        let filter = if self.name == "posts" { " WHERE v->>'deleted_at' IS NULL" } else { "" };
        let copies = self.copies.iter().map(|copy| format!("INSERT INTO {copy} {ROWS}{filter} ON CONFLICT DO NOTHING"));
        std::iter::once(own).chain(copies).collect()
    }

    fn postgres_column(&self, column: &str) -> String {
        match (self.name, column) {
            ("accounts", "user") => "\"user\"".to_owned(),
            (_, "user") => "owner".to_owned(),
            _ => column.to_owned(),
        }
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
