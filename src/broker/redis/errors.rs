//! Classifies the errors of Redis.

use redis::{ErrorKind, RedisError};

use crate::broker::BrokerError;
use crate::store_refusal::Refusal;

/// Maps an error of Redis. The errors of a pipeline are a refusal only if all of them are.
pub(super) fn classify(error: &RedisError) -> BrokerError {
    let text = error.to_string();
    if error.kind() == ErrorKind::AuthenticationFailed {
        return BrokerError::Refused(Refusal::NoPermission, text);
    }
    let Some(errors) = error.clone().into_server_errors() else {
        return if error.is_io_error() { BrokerError::Unreachable(text) } else { BrokerError::Failed(text) };
    };
    let refusals: Option<Vec<Refusal>> =
        errors.iter().map(|(_, error)| refusal(error.code(), error.details().unwrap_or_default())).collect();
    match refusals.as_deref() {
        Some([first, ..]) => BrokerError::Refused(*first, text),
        _ => BrokerError::Failed(text),
    }
}

/// The error for a command that failed inside a script which went on.
pub(super) fn failed_in_script(reason: &str) -> BrokerError {
    let (code, details) = reason.split_once(' ').unwrap_or((reason, ""));
    match refusal(code, details) {
        Some(refusal) => BrokerError::Refused(refusal, reason.to_owned()),
        None => BrokerError::Failed(reason.to_owned()),
    }
}

/// The refusal that an error code means. Codes that are not listed concern the call.
fn refusal(code: &str, details: &str) -> Option<Refusal> {
    Some(match code {
        "NOPERM" | "NOAUTH" | "WRONGPASS" | "DENIED" => Refusal::NoPermission,
        "READONLY" => Refusal::ReadOnly,
        // The last snapshot or write of the append-only file failed.
        "MISCONF" => Refusal::Disk,
        "OOM" => Refusal::OutOfMemory,
        // The scripts are loaded again before this error counts.
        "LOADING" | "BUSY" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" | "NOREPLICAS" | "NOSCRIPT" | "UNKILLABLE" => {
            Refusal::NotReady
        }
        "ERR" if details.starts_with("max number of clients") => Refusal::TooManyConnections,
        // The command was renamed or disabled.
        "ERR" if details.starts_with("unknown command") || details.starts_with("Unknown Redis command") => {
            Refusal::SchemaDamaged
        }
        // Redis 7.0, in a script.
        "ERR" if details.starts_with("The user executing the script can't") => Refusal::NoPermission,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error reply as Redis sends it.
    fn reply(text: &str) -> RedisError {
        let value = redis::parse_redis_value(format!("-{text}\r\n").as_bytes()).expect("a reply");
        value.extract_error().expect_err("an error")
    }

    const REFUSALS: [(&str, Refusal); 19] = [
        ("NOPERM this user has no permissions to run the 'set' command", Refusal::NoPermission),
        ("NOPERM ACL failure in script: No permissions to access a key", Refusal::NoPermission),
        ("NOAUTH Authentication required.", Refusal::NoPermission),
        ("WRONGPASS invalid username-password pair or user is disabled.", Refusal::NoPermission),
        ("ERR The user executing the script can't run this command or subcommand", Refusal::NoPermission),
        ("ERR The user executing the script can't access at least one of the keys", Refusal::NoPermission),
        ("READONLY You can't write against a read only replica.", Refusal::ReadOnly),
        ("MISCONF Redis is configured to save RDB snapshots", Refusal::Disk),
        ("OOM command not allowed when used memory > 'maxmemory'.", Refusal::OutOfMemory),
        ("ERR max number of clients reached", Refusal::TooManyConnections),
        ("LOADING Redis is loading the dataset in memory", Refusal::NotReady),
        ("BUSY Redis is busy running a script.", Refusal::NotReady),
        ("MASTERDOWN Link with MASTER is down", Refusal::NotReady),
        ("CLUSTERDOWN The cluster is down", Refusal::NotReady),
        ("TRYAGAIN Multiple keys request during rehashing of slot", Refusal::NotReady),
        ("NOREPLICAS Not enough good replicas to write.", Refusal::NotReady),
        ("NOSCRIPT No matching script.", Refusal::NotReady),
        ("ERR unknown command 'XADD', with args beginning with:", Refusal::SchemaDamaged),
        ("ERR Unknown Redis command called from script", Refusal::SchemaDamaged),
    ];

    const FAILURES: [&str; 4] = [
        "WRONGTYPE Operation against a key holding the wrong kind of value",
        "ERR value is not an integer or out of range",
        "ERR user_script:1: attempt to index a nil value",
        "ODD some error of a later version",
    ];

    #[test]
    fn refusals_are_recognised_with_their_reason() {
        for (text, refusal) in REFUSALS {
            for error in [classify(&reply(text)), failed_in_script(text)] {
                assert!(matches!(&error, BrokerError::Refused(found, _) if *found == refusal), "{text}: {error:?}");
            }
        }
    }

    #[test]
    fn other_replies_concern_the_call() {
        for text in FAILURES {
            for error in [classify(&reply(text)), failed_in_script(text)] {
                assert!(matches!(error, BrokerError::Failed(_)), "{text}: {error:?}");
            }
        }
    }

    #[test]
    fn lost_connections_and_wrong_passwords_are_recognised() {
        let lost = RedisError::from(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
        assert!(matches!(classify(&lost), BrokerError::Unreachable(_)));
        let wrong = RedisError::from((ErrorKind::AuthenticationFailed, "Password authentication failed"));
        assert!(matches!(classify(&wrong), BrokerError::Refused(Refusal::NoPermission, _)));
    }
}
