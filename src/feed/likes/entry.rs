//! A like as the queue keeps it: `+ p17 1767225600000 ann`, or `-` for one that is taken back.

use bytes::Bytes;

use crate::model::{LikeChange, Object, UserId};

pub(super) fn encode(change: &LikeChange) -> Bytes {
    let LikeChange { user, object, liked, at } = change;
    let sign = if *liked { '+' } else { '-' };
    format!("{sign} {} {at} {user}", object.to_text()).into()
}

/// Reads what [`encode`] wrote. `None` if it is something else, as what a newer version wrote could be.
pub(super) fn decode(body: &[u8]) -> Option<LikeChange> {
    let mut parts = std::str::from_utf8(body).ok()?.splitn(4, ' ');
    let liked = match parts.next()? {
        "+" => true,
        "-" => false,
        _ => return None,
    };
    let object = Object::parse(parts.next()?)?;
    let at = parts.next()?.parse().ok()?;
    Some(LikeChange { user: UserId::parse(parts.next()?)?, object, liked, at })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::PostId;

    #[test]
    fn a_like_survives_the_queue() {
        for liked in [true, false] {
            let user = UserId::parse("ann.b-c_d").unwrap();
            let change = LikeChange { user, object: Object::Post(PostId(17)), liked, at: 1_767_225_600_000 };
            assert_eq!(decode(&encode(&change)), Some(change));
        }
        for nothing in [&b""[..], b"+ p1 2", b"* p1 2 ann", b"+ x1 2 ann", b"+ p1 2 a b"] {
            assert_eq!(decode(nothing), None);
        }
    }
}
