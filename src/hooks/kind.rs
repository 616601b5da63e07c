//! The kinds of questions.

/// What the backend is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookKind {
    /// Who a client without a token is.
    Connect,
    /// Whether a connection goes on.
    Refresh,
    /// Whether a client may subscribe.
    Subscribe,
    /// Whether a client may publish.
    Publish,
    /// Whether a subscription goes on.
    SubRefresh,
    /// What the reply to an unknown method is.
    Rpc,
}

impl HookKind {
    /// The number of kinds.
    pub(super) const COUNT: usize = 6;

    /// The name of its configuration key.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Refresh => "refresh",
            Self::Subscribe => "subscribe",
            Self::Publish => "publish",
            Self::SubRefresh => "sub_refresh",
            Self::Rpc => "rpc",
        }
    }
}
