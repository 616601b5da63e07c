//! The fan-out as Redis sees it, for who wants to measure Redis without what is around it.

use redis::Cmd;

use super::keys::Keys;
use super::scripts::SCRIPTS;
use crate::broker::{Attempt, FanOut, PAGE_TTL};
use crate::model::PostId;

/// Makes a server know the fan-out script.
pub fn load_fan_out() -> Cmd {
    SCRIPTS.fan_out.load()
}

/// Writes one page, exactly as [`RedisBroker`](super::RedisBroker) does for the same `prefix` and inbox `length`, to a
/// server that [knows the script](load_fan_out).
pub fn fan_out(prefix: &str, length: u64, page: &FanOut<'_>) -> Cmd {
    command(&Keys::new(prefix), length, page)
}

/// Ids as text that compares as they do: 16 digits.
pub(super) fn padded(id: PostId) -> String {
    format!("{:016}", id.0)
}

pub(super) fn command(keys: &Keys, length: u64, page: &FanOut<'_>) -> Cmd {
    let mut call = SCRIPTS.fan_out.call(1 + 2 * page.users.len());
    call.arg(keys.page(page.page));
    for user in page.users {
        call.arg(&keys.inbox(user)[..]);
    }
    let (kind, body) = page.entry.encode();
    let post = page.entry.post().unwrap_or(PostId::ZERO);
    call.arg(page.next).arg(PAGE_TTL.as_secs()).arg(&[kind][..]).arg(&body[..]).arg(padded(post)).arg(length);
    call.arg(u8::from(page.attempt == Attempt::Repeated));
    call
}
