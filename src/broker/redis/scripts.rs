//! The Lua scripts that run inside Redis.

use std::sync::LazyLock;

use redis::Cmd;

/// A script, called by its digest.
pub(super) struct Script {
    code: &'static str,
    digest: String,
}

impl Script {
    fn new(code: &'static str) -> Self {
        Self { code, digest: redis::Script::new(code).get_hash().to_owned() }
    }

    /// A call with this many keys; keys and arguments follow.
    pub(super) fn call(&self, keys: usize) -> Cmd {
        let mut call = redis::cmd("EVALSHA");
        call.arg(&self.digest).arg(keys);
        call
    }

    /// Loads the script into the server.
    pub(super) fn load(&self) -> Cmd {
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(self.code);
        load
    }
}

/// All scripts.
pub(super) struct Scripts {
    pub(super) append: Script,
    pub(super) publish: Script,
    pub(super) position: Script,
    pub(super) positions: Script,
    pub(super) read: Script,
    pub(super) drop: Script,
    pub(super) open: Script,
    pub(super) fill: Script,
    pub(super) amend: Script,
    pub(super) add_own: Script,
    pub(super) begin: Script,
    pub(super) fan_out: Script,
    pub(super) pull: Script,
    pub(super) redirect: Script,
    pub(super) catch_up: Script,
    pub(super) present: Script,
    pub(super) absent: Script,
    pub(super) presence: Script,
    pub(super) presence_stats: Script,
    pub(super) lease: Script,
    pub(super) release_node: Script,
    pub(super) enqueue: Script,
    pub(super) read_queue: Script,
    pub(super) trim_queue: Script,
    pub(super) tally: Script,
    pub(super) tallies: Script,
    pub(super) permit: Script,
    pub(super) ledger: Script,
    pub(super) invalidate: Script,
    pub(super) follow: Script,
    pub(super) identity: Script,
}

impl Scripts {
    pub(super) fn all(&self) -> [&Script; 31] {
        [
            &self.append,
            &self.publish,
            &self.position,
            &self.positions,
            &self.read,
            &self.drop,
            &self.open,
            &self.fill,
            &self.amend,
            &self.add_own,
            &self.begin,
            &self.fan_out,
            &self.pull,
            &self.redirect,
            &self.catch_up,
            &self.present,
            &self.absent,
            &self.presence,
            &self.presence_stats,
            &self.lease,
            &self.release_node,
            &self.enqueue,
            &self.read_queue,
            &self.trim_queue,
            &self.tally,
            &self.tallies,
            &self.invalidate,
            &self.follow,
            &self.permit,
            &self.ledger,
            &self.identity,
        ]
    }
}

/// A script that writes to inboxes, with the prelude of inboxes.
macro_rules! inbox_script {
    ($name:literal) => {
        Script::new(concat!(include_str!("scripts/inbox_prelude.lua"), "\n", include_str!(concat!("scripts/", $name))))
    };
}

/// A script that writes to many inboxes.
macro_rules! page_script {
    ($name:literal) => {
        Script::new(concat!(
            include_str!("scripts/inbox_prelude.lua"),
            "\n",
            include_str!("scripts/node_hints.lua"),
            "\n",
            include_str!(concat!("scripts/", $name))
        ))
    };
}

/// A script on presence.
macro_rules! presence_script {
    ($name:literal) => {
        Script::new(concat!(
            include_str!("scripts/presence_prelude.lua"),
            "\n",
            include_str!(concat!("scripts/", $name))
        ))
    };
}

/// A script that may read a log without a write.
macro_rules! log_script {
    ($name:literal) => {
        Script::new(concat!(include_str!("scripts/derived.lua"), "\n", include_str!(concat!("scripts/", $name))))
    };
    ($name:literal, $prelude:literal) => {
        Script::new(concat!(
            include_str!(concat!("scripts/", $prelude)),
            "\n",
            include_str!("scripts/derived.lua"),
            "\n",
            include_str!(concat!("scripts/", $name))
        ))
    };
}

pub(super) static SCRIPTS: LazyLock<Scripts> = LazyLock::new(|| Scripts {
    append: log_script!("append.lua"),
    publish: Script::new(include_str!("scripts/publish.lua")),
    position: log_script!("position.lua"),
    positions: log_script!("positions.lua", "inbox_prelude.lua"),
    read: log_script!("read.lua", "inbox_prelude.lua"),
    drop: Script::new(include_str!("scripts/drop.lua")),
    open: inbox_script!("open.lua"),
    fill: inbox_script!("fill.lua"),
    amend: inbox_script!("amend.lua"),
    add_own: inbox_script!("add_own.lua"),
    begin: Script::new(include_str!("scripts/begin.lua")),
    fan_out: page_script!("fan_out.lua"),
    pull: page_script!("pull.lua"),
    redirect: Script::new(include_str!("scripts/redirect.lua")),
    catch_up: inbox_script!("catch_up.lua"),
    present: presence_script!("present.lua"),
    absent: presence_script!("absent.lua"),
    presence: presence_script!("presence.lua"),
    presence_stats: presence_script!("presence_stats.lua"),
    lease: Script::new(include_str!("scripts/lease.lua")),
    release_node: Script::new(include_str!("scripts/release_node.lua")),
    enqueue: Script::new(include_str!("scripts/enqueue.lua")),
    read_queue: Script::new(include_str!("scripts/read_queue.lua")),
    trim_queue: Script::new(include_str!("scripts/trim_queue.lua")),
    tally: Script::new(include_str!("scripts/tally.lua")),
    tallies: Script::new(include_str!("scripts/tallies.lua")),
    invalidate: Script::new(include_str!("scripts/invalidate.lua")),
    follow: Script::new(include_str!("scripts/follow.lua")),
    identity: Script::new(include_str!("scripts/identity.lua")),
    permit: Script::new(include_str!("scripts/permit.lua")),
    ledger: Script::new(include_str!("scripts/ledger.lua")),
});
