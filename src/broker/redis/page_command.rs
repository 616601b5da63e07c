//! The call of Redis that writes one page of a fan-out.

use redis::Cmd;

use super::keys::Keys;
use super::scripts::SCRIPTS;
use crate::broker::FanOut;
use crate::broker::fan_out::{JOB_TTL, padded};
use crate::model::{InboxId, PostId};

/// Writes one page of a fan-out to inboxes of at most `length` entries.
pub(super) fn page_command(keys: &Keys, length: u64, page: &FanOut<'_>) -> Cmd {
    let mut call = SCRIPTS.fan_out.call(1 + 2 * page.users.len());
    let token = page.attempt.token();
    call.arg(keys.job(page.attempt));
    let mut name = String::new();
    for user in page.users {
        keys.with_inbox(user, &mut name, |name| _ = call.arg(name));
    }
    let (kind, body) = page.entry.encode();
    let post = page.entry.post().unwrap_or(PostId::ZERO);
    call.arg(token).arg(page.page.field(token)).arg(page.page.value(page.users)).arg(JOB_TTL.as_secs());
    call.arg(&[kind][..]).arg(&body[..]).arg(padded(post)).arg(length).arg(page.since());
    let [own_log, _] = keys.inbox(&InboxId::Timeline(page.author.clone()));
    call.arg(own_log);
    call.arg(keys.node_hints("")).arg(keys.user_in_inbox());
    call
}

/// The fan-out without the broker, to measure Redis alone.
pub mod measured {
    use super::{Cmd, FanOut, Keys, SCRIPTS, page_command};

    /// Loads the fan-out script into a server.
    pub fn load_fan_out() -> Cmd {
        SCRIPTS.fan_out.load()
    }

    /// Writes one page, exactly as [`RedisBroker`](crate::broker::RedisBroker) does for the same `prefix` and inbox
    /// `length`, on a server that has [loaded the script](load_fan_out).
    pub fn fan_out(prefix: &str, length: u64, page: &FanOut<'_>) -> Cmd {
        page_command(&Keys::new(prefix, 0), length, page)
    }
}
