//! The statements of lists: the rows that they read.

use feedline_test_support::postgres_server::shared;

use super::{Cost, cost, ledger, lists};
use crate::ledger::Ledger as _;

#[tokio::test]
async fn list_cost_does_not_depend_on_total_posts() {
    let server = shared();
    let (ledger, name) = ledger(server).await;
    // All members have many old posts; nearly all recent posts are by one user, in one topic.
    let written = "INSERT INTO list_users SELECT 1, 'a' || n, 0 FROM generate_series(0, 199) n; \
                   INSERT INTO list_topics SELECT 1, 't' || n, 0 FROM generate_series(0, 19) n; \
                   INSERT INTO author_posts SELECT 'a' || a, 1000 * n + a \
                   FROM generate_series(0, 199) a, generate_series(1, 100) n; \
                   INSERT INTO post_topics SELECT 't' || t, 1000 * n + 500 + t, true \
                   FROM generate_series(0, 19) t, generate_series(1, 100) n; \
                   INSERT INTO author_posts SELECT 'a7', n FROM generate_series(1000000, 1005000) n; \
                   INSERT INTO post_topics SELECT 't7', n, n % 2 = 0 FROM generate_series(1000000, 1005000) n";
    server.ask(&name, written).await;
    for is_analyzed in [false, true] {
        for before in ["9000000", "90000", "1000100"] {
            // The members twice, two posts of each, and at most two pages of those with more posts.
            let Cost { plan, rows } = cost(&ledger, lists::POSTS, &format!("1, {before}, 50")).await;
            assert!(rows > 220.0 && rows < 1_200.0, "{rows} rows before {before}\n{plan}");
        }
        if !is_analyzed {
            server.ask(&name, "ANALYZE").await;
        }
    }
    ledger.close().await;
}

#[tokio::test]
async fn lists_of_a_user_are_look_ups_in_indexes() {
    let server = shared();
    let (ledger, name) = ledger(server).await;
    // Many users have `bo` in a list.
    let written = "INSERT INTO lists (owner, name, exclusive, created_at) \
                   SELECT 'u' || n % 1000, '', true, 0 FROM generate_series(0, 4999) n; \
                   INSERT INTO list_users SELECT id, 'bo', 0 FROM lists; \
                   INSERT INTO list_users SELECT id, 'u' || n, 0 FROM lists, generate_series(0, 9) n";
    server.ask(&name, written).await;
    for is_analyzed in [false, true] {
        for (sql, arguments) in [(lists::LISTS, "'u7'"), (lists::LIST, "'u7', 8"), (lists::LISTS_WITH, "'u7', 'bo'")] {
            let Cost { plan, rows } = cost(&ledger, sql, arguments).await;
            assert!(rows > 0.0 && rows < 100.0 && !plan.contains("Removed by Filter"), "{rows} rows\n{plan}");
        }
        if !is_analyzed {
            server.ask(&name, "ANALYZE").await;
        }
    }
    ledger.close().await;
}
