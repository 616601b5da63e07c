//! The errors of brokers.

use crate::store_refusal::Refusal;

/// Why a call to a broker failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BrokerError {
    /// The broker cannot be reached, or did not reply in time. A write may have happened or not.
    #[error("the broker is unreachable: {0}")]
    Unreachable(String),
    /// The broker refuses all such calls for now. Nothing was written, except by the commands of a script before the
    /// one that was refused: a retry completes it.
    #[error("the broker refuses to work ({0}): {1}")]
    Refused(Refusal, String),
    /// The broker replied with a lasting error, which concerns this call: a retry fails, too.
    #[error("the broker failed: {0}")]
    Failed(String),
}

/// The result of a call to a broker.
pub type Result<T> = std::result::Result<T, BrokerError>;
