//! `[client]`: the limits of one client connection.

use std::time::Duration;

use crate::gateway::channels::Namespace;
use crate::net::ListenAddress;
use crate::settings::parse;
use crate::settings::{SectionReader, section};

section! {
    /// `[client]`.
    pub struct ClientConfig {
        /// The maximum size of a message from the client, in bytes.
        pub message_bytes: usize = parse::integer(1024..=64 << 20),
        /// The maximum size of the client's send queue, in bytes.
        pub queue_bytes: usize = parse::integer(1024..=1 << 30),
        /// The maximum number of messages in the client's send queue.
        pub queue_messages: usize = parse::integer(1..=10_000_000),
        /// The interval between pings, in whole seconds: the protocol has no finer unit.
        pub ping_interval: Duration = parse::duration("1s"..="1h"),
        /// The maximum time until a pong arrives; less than [`ping_interval`](Self::ping_interval).
        pub pong_timeout: Duration = parse::duration("100ms"..="1h"),
        /// The maximum time until a new socket sends the connect command.
        pub connect_timeout: Duration = parse::duration("100ms"..="10m"),
        /// The maximum duration of one write to the socket.
        pub write_timeout: Duration = parse::duration("100ms"..="10m"),
        /// The maximum number of subscriptions.
        pub channels: usize = parse::integer(1..=1_000_000),
        /// The maximum length of a channel name, in bytes.
        pub channel_length: usize = parse::integer(1..=4096),
        /// The maximum number of commands per second, with bursts of twice as many; `None`: no limit.
        pub commands_per_second: Option<u32> = parse::limit(1_000_000),
        /// The maximum number of publications in the reply to one history command.
        pub history_limit: usize = parse::integer(1..=100_000),
        /// The maximum number of publications in one recovery.
        pub recovery_limit: usize = parse::integer(1..=100_000),
        /// The maximum number of clients in the reply to one presence command.
        pub presence_limit: usize = parse::integer(1..=10_000),
        /// The maximum number of connections of one user per node; `None`: no limit.
        pub connections_per_user: Option<u32> = parse::limit(1_000_000),
        /// Development only: no token is needed, and every client may do everything on channels of the application.
        pub insecure: bool = parse::boolean,
        /// Whether the server subscribes signed-in users to `#<user>`.
        pub user_personal_channel: bool = parse::boolean,
        /// Whether a new connection of a signed-in user closes the user's others. Only with
        /// [`user_personal_channel`](Self::user_personal_channel).
        pub single_connection: bool = parse::boolean,
        /// Whether the server subscribes the users of the application to their timelines and notifications; `None`:
        /// unless it subscribes them to their personal channels.
        pub feed_channels: Option<bool> = parse::boolean_or_auto,
    }
}

impl ClientConfig {
    /// Whether the server subscribes the users of the application to their timelines and notifications.
    pub fn has_feed_channels(&self) -> bool {
        self.feed_channels.unwrap_or(!self.user_personal_channel)
    }

    pub(crate) fn read(mut section: SectionReader<'_>, listen: &[ListenAddress], namespaces: &[Namespace]) -> Self {
        let client = Self::read_keys(&mut section);
        client.check(&mut section, listen, namespaces);
        client
    }

    /// Reports values that contradict each other.
    fn check(&self, section: &mut SectionReader<'_>, listen: &[ListenAddress], namespaces: &[Namespace]) {
        if self.insecure && !listen.iter().all(ListenAddress::is_local) {
            section.problem(&["insecure"], "is for development: server.listen must be a loopback address");
        }
        if self.single_connection && !self.user_personal_channel {
            section.problem(&["single_connection"], "needs client.user_personal_channel = true");
        }
        if self.ping_interval.subsec_nanos() != 0 {
            section.problem(&["ping_interval"], "expected whole seconds");
        }
        if self.pong_timeout >= self.ping_interval {
            section.problem(&["pong_timeout", "ping_interval"], "pong_timeout must be shorter than ping_interval");
        }
        if self.single_connection && self.connections_per_user == Some(1) {
            let message = "refuses the new connection, which client.single_connection lets replace the former one: \
                           expected 0, or 2 or more";
            section.problem(&["connections_per_user"], message);
        }
        // The shortest name of a channel is its namespace, a colon and one character.
        let is_named = |namespace: &&Namespace| !namespace.name.is_empty();
        let is_long = |namespace: &&Namespace| namespace.name.len() + 2 > self.channel_length;
        if let Some(long) = namespaces.iter().filter(is_named).find(is_long) {
            let message = format!("is too short for any channel of the namespace {:?}", long.name);
            section.problem(&["channel_length"], &message);
        }
    }
}
