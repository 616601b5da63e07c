//! The errors of brokers.

/// What can go wrong with a broker.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// It could not be reached, or did not answer in time. Trying again later may work.
    #[error("the broker is unreachable: {0}")]
    Unreachable(String),
    /// It answered with an error that trying again does not mend.
    #[error("the broker refused: {0}")]
    Refused(String),
}

/// What a broker's answer is.
pub type Result<T> = std::result::Result<T, BrokerError>;
