//! Commands of clients whose transport carries none. They arrive in HTTP requests, at any node, and are passed to the
//! node with the stream.

use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::broker::{EmulatedCommands, Signal};
use crate::feed::Base;
use crate::gateway::transport::stream_sessions::StreamSessions;
use crate::protocol::{EmulatedData, EmulationRequest};

/// The longest name of a session or node: that of a UUID.
const MAX_NAME: usize = 36;

/// Passes commands to streams.
pub struct Emulation {
    pub(crate) sessions: Arc<StreamSessions>,
    pub(crate) base: Arc<Base>,
    /// The largest batch of commands, in bytes.
    pub(crate) message_bytes: usize,
}

/// Why commands are not passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmulationRefusal {
    /// A name cannot be one of this server, or there are no commands.
    Malformed,
    /// There are more bytes than in a message.
    TooLarge,
    /// There is no such node.
    UnknownNode,
    /// The address has sent too many commands to streams of other nodes.
    RateLimited,
    /// The node cannot be reached.
    Failed,
}

impl EmulationRefusal {
    fn outcome(self) -> &'static str {
        match self {
            Self::Malformed | Self::TooLarge => "malformed",
            Self::UnknownNode => "unknown",
            Self::RateLimited => "limited",
            Self::Failed => "failed",
        }
    }
}

impl Emulation {
    /// The largest batch of commands, in bytes.
    pub fn message_bytes(&self) -> usize {
        self.message_bytes
    }

    /// Passes commands to the node with the stream, behind those that it received before. Whether the stream still
    /// exists there is not part of the answer: nobody can search for sessions. Anybody may send such requests, so those
    /// that cost a message between nodes are counted by `address`.
    ///
    /// # Errors
    /// If the commands cannot reach a node.
    pub async fn pass(&self, request: EmulationRequest, address: IpAddr) -> Result<(), EmulationRefusal> {
        let passed = self.deliver_or_forward(request, address).await;
        self.base.metrics.emulated(passed.unwrap_or_else(EmulationRefusal::outcome));
        passed.map(|_| ())
    }

    async fn deliver_or_forward(
        &self,
        request: EmulationRequest,
        address: IpAddr,
    ) -> Result<&'static str, EmulationRefusal> {
        let EmulationRequest { node, session, data } = request;
        // Names of other nodes become names of channels in the broker.
        let is_name = |name: &str| {
            !name.is_empty() && name.len() <= MAX_NAME && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        };
        if !is_name(&node) || !is_name(&session) || data.is_empty() {
            return Err(EmulationRefusal::Malformed);
        }
        if data.len() > self.message_bytes {
            return Err(EmulationRefusal::TooLarge);
        }
        if node == **self.base.broker.node() {
            return Ok(if self.sessions.deliver(&session, data) { "delivered" } else { "gone" });
        }
        self.base.rates.take_forwarded(address, data.len()).map_err(|_| EmulationRefusal::RateLimited)?;
        let commands = match data {
            EmulatedData::Text(text) => EmulatedCommands { session, text, binary: String::new() },
            EmulatedData::Binary(bytes) => {
                EmulatedCommands { session, text: String::new(), binary: BASE64_STANDARD.encode(bytes) }
            }
        };
        match self.base.broker.signal_node(&node, Signal::Emulated(commands)).await {
            Ok(true) => Ok("forwarded"),
            Ok(false) => Err(EmulationRefusal::UnknownNode),
            Err(error) => {
                tracing::warn!(%error, "commands of a client cannot reach the node with its stream");
                Err(EmulationRefusal::Failed)
            }
        }
    }
}

/// Passes commands from another node to a stream of this node.
pub(crate) fn on_emulated(sessions: &StreamSessions, commands: EmulatedCommands) {
    let EmulatedCommands { session, text, binary } = commands;
    let data = if binary.is_empty() {
        EmulatedData::Text(text)
    } else {
        match BASE64_STANDARD.decode(binary) {
            Ok(bytes) => EmulatedData::Binary(bytes.into()),
            Err(error) => {
                tracing::warn!(%error, "commands from another node cannot be read");
                return;
            }
        }
    };
    sessions.deliver(&session, data);
}
