//! Commands whose token names a key that is not fetched yet. They wait; other clients do not.

use super::actions::{Action, WaitedCommand};
use super::time::SessionTime;
use super::{Session, SessionState};
use crate::auth::KeyLookup;
use crate::protocol::{ErrorCode, Reply};

/// The action of a command that has waited. If the keys could not be fetched, the error is temporary: the token may be
/// valid.
pub(crate) fn resume(session: &mut Session, waited: WaitedCommand, now: SessionTime) -> Action {
    let WaitedCommand { command, lookup } = waited;
    match lookup {
        KeyLookup::Current => session.execute(command, now),
        KeyLookup::Unavailable => {
            if let SessionState::Fresh = session.state {
                session.state = SessionState::Refused;
            }
            Action::Reply(Reply::refused(command.id, ErrorCode::INTERNAL))
        }
    }
}
