//! One connection for each user: a new one closes the others, on every node.

use std::sync::Arc;

use crate::broker::{Broker, ConnectionSelector, DisconnectRequest, Signal};
use crate::model::UserId;
use crate::protocol::Disconnect;

/// Closes the other connections of a user.
pub(crate) struct SingleConnection {
    pub(crate) broker: Arc<dyn Broker>,
}

impl SingleConnection {
    /// Closes all connections of a user except this client's. The client is in the presence of the user's personal
    /// channel already. If it is alone there, no other node is asked.
    pub(crate) async fn close_others(&self, user: &UserId, client: &str) -> crate::broker::Result<()> {
        if self.broker.presence_stats(&format!("#{user}")).await?.clients < 2 {
            return Ok(());
        }
        let Disconnect { code, reason } = Disconnect::CONNECTION_LIMIT;
        let connections = ConnectionSelector { user: user.to_string(), ..ConnectionSelector::default() };
        let whitelist = vec![client.to_owned()];
        let reason = reason.into_owned();
        let request = DisconnectRequest { connections, whitelist, code, reason };
        self.broker.signal(Signal::Disconnect(request)).await.map(|_| ())
    }
}
