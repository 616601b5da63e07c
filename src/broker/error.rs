//! The errors of brokers.

/// Why a call to a broker failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BrokerError {
    /// The broker cannot be reached, or did not reply in time. A retry may succeed.
    #[error("the broker is unreachable: {0}")]
    Unreachable(String),
    /// The broker replied with a lasting error: a retry fails, too.
    #[error("the broker refused: {0}")]
    Refused(String),
}

/// The result of a call to a broker.
pub type Result<T> = std::result::Result<T, BrokerError>;
