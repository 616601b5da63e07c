//! The ways in which stores refuse to work, or do not answer.

use crate::likers::Field;

/// Something that changes how a store works.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// A command to Redis.
    Redis(&'static str),
    /// A statement in the ledger, of its superuser.
    Ledger(&'static str),
    /// A statement of PostgreSQL's superuser, in another database.
    Admin(&'static str),
    /// The limit of the sizes of the node's files.
    FileSizes(&'static str),
    PauseRedis,
    ResumeRedis,
    KillRedis,
    StartRedis,
    PausePostgres,
    ResumePostgres,
}

use Step::{
    Admin, FileSizes, KillRedis, Ledger, PausePostgres, PauseRedis, Redis, ResumePostgres, ResumeRedis, StartRedis,
};

/// A refusal: its begin, its end, and how `/ready` explains it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusal {
    pub(crate) begin: &'static [Step],
    pub(crate) end: &'static [Step],
    /// `stores` or `work`, its member, and a part of the reason.
    pub(crate) shown: (&'static str, &'static str, &'static str),
}

const END_CONNECTIONS: Step =
    Admin("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'feedline'");

pub(crate) const OF_REDIS: [Refusal; 8] = [
    // A small write works, so only the work shows it.
    Refusal {
        begin: &[Redis("ACL SETUSER default -xadd")],
        end: &[Redis("ACL SETUSER default +@all")],
        shown: ("work", "jobs", "no permission"),
    },
    Refusal {
        begin: &[Redis("ACL SETUSER default -evalsha")],
        end: &[Redis("ACL SETUSER default +@all")],
        shown: ("work", "jobs", "no permission"),
    },
    Refusal {
        begin: &[Redis("CONFIG SET maxmemory 1")],
        end: &[Redis("CONFIG SET maxmemory 0")],
        shown: ("stores", "broker", "out of memory"),
    },
    // Of a server that does not exist.
    Refusal {
        begin: &[Redis("REPLICAOF 127.0.0.1 1")],
        end: &[Redis("REPLICAOF NO ONE")],
        shown: ("stores", "broker", "read only"),
    },
    Refusal {
        begin: &[Redis("CONFIG SET min-replicas-to-write 1")],
        end: &[Redis("CONFIG SET min-replicas-to-write 0")],
        shown: ("stores", "broker", "not ready"),
    },
    Refusal {
        begin: &[Redis("CLIENT PAUSE 600000 WRITE")],
        end: &[Redis("CLIENT UNPAUSE")],
        shown: ("stores", "broker", ""),
    },
    Refusal { begin: &[PauseRedis], end: &[ResumeRedis], shown: ("stores", "broker", "") },
    Refusal { begin: &[KillRedis], end: &[StartRedis], shown: ("stores", "broker", "") },
];

pub(crate) const OF_POSTGRES: [Refusal; 7] = [
    // Requests and a small write work.
    Refusal {
        begin: &[Ledger(
            "REVOKE INSERT ON pulled, likes, notifications, outlet, push_queue FROM app; \
             REVOKE UPDATE ON posts, like_positions, outlet_consumers, push_queue, erasures FROM app; \
             REVOKE DELETE ON jobs, events FROM app",
        )],
        end: &[Ledger("GRANT ALL ON ALL TABLES IN SCHEMA public TO app")],
        shown: ("work", "jobs", "no permission"),
    },
    Refusal {
        begin: &[Admin("ALTER DATABASE postgres SET default_transaction_read_only = on"), END_CONNECTIONS],
        end: &[Admin("ALTER DATABASE postgres RESET default_transaction_read_only"), END_CONNECTIONS],
        shown: ("stores", "ledger", "read only"),
    },
    Refusal {
        begin: &[Admin("ALTER ROLE app NOLOGIN"), END_CONNECTIONS],
        end: &[Admin("ALTER ROLE app LOGIN")],
        shown: ("stores", "ledger", "no permission"),
    },
    Refusal {
        begin: &[Admin("ALTER ROLE app CONNECTION LIMIT 0"), END_CONNECTIONS],
        end: &[Admin("ALTER ROLE app CONNECTION LIMIT -1")],
        shown: ("stores", "ledger", "too many connections"),
    },
    Refusal {
        begin: &[Admin("ALTER DATABASE postgres ALLOW_CONNECTIONS false"), END_CONNECTIONS],
        end: &[Admin("ALTER DATABASE postgres ALLOW_CONNECTIONS true")],
        shown: ("stores", "ledger", "not currently accepting connections"),
    },
    Refusal { begin: &[PausePostgres], end: &[ResumePostgres], shown: ("stores", "ledger", "") },
    MISSING_TABLES,
];

pub(crate) const OF_SQLITE: [Refusal; 2] = [
    // No file can be written, neither those of the ledger nor those of the queue of likes.
    Refusal { begin: &[FileSizes("1:unlimited")], end: &[FileSizes("unlimited")], shown: ("stores", "ledger", "disk") },
    MISSING_TABLES,
];

/// Somebody renames tables that the fan-out and the settling of likes need, and renames them back later.
const MISSING_TABLES: Refusal = Refusal {
    begin: &[Ledger("ALTER TABLE pulled RENAME TO pulled_gone; ALTER TABLE likes RENAME TO likes_gone")],
    end: &[Ledger("ALTER TABLE pulled_gone RENAME TO pulled; ALTER TABLE likes_gone RENAME TO likes")],
    shown: ("work", "jobs", "schema damaged"),
};

impl Step {
    /// Changes the stores of a deployment.
    pub(crate) async fn run(self, field: &mut Field) {
        match (self, field.redis.as_mut(), field.postgres.as_ref()) {
            (Redis(command), Some(redis), _) => assert_eq!(redis.ask(command), "+OK", "{command}"),
            (PauseRedis, Some(redis), _) => redis.pause(),
            (ResumeRedis, Some(redis), _) => redis.resume(),
            (KillRedis, Some(redis), _) => redis.kill(),
            (StartRedis, Some(redis), _) => redis.start_again(),
            (Ledger(sql), _, Some(postgres)) => postgres.ask("postgres", sql).await,
            (Ledger(sql), _, None) => field.connection().execute_batch(sql).expect(sql),
            (Admin(sql), _, Some(postgres)) => postgres.ask("template1", sql).await,
            (FileSizes(limit), ..) => field.nodes[0].limit_file_sizes(limit),
            (PausePostgres, _, Some(postgres)) => postgres.pause(),
            (ResumePostgres, _, Some(postgres)) => postgres.resume(),
            _ => panic!("{self:?} needs another store"),
        }
    }
}
