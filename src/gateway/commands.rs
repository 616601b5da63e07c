//! Starts the commands that take time.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::channel_commands::ChannelCommands;
use super::command_outcome::CommandOutcome;
use super::outbox::Outbox;
use super::rpc::RpcRunner;
use super::session::Action;
use super::subscriptions::Subscriptions;
use crate::metrics::Metrics;

/// A command that takes time.
pub(super) struct RunningCommand {
    pub(super) future: Pin<Box<dyn Future<Output = CommandOutcome> + Send>>,
    /// The command joins the client to channels: the outbox must not be written before its reply.
    pub(super) holds_outbox: bool,
}

/// Runs commands of all clients.
pub(super) struct CommandRunner {
    pub(super) subscriptions: Subscriptions,
    pub(super) channels: ChannelCommands,
    pub(super) rpc: RpcRunner,
    pub(super) metrics: Arc<Metrics>,
}

impl CommandRunner {
    /// Starts the command of an action. `None` if the action takes no time.
    pub(super) fn start(self: &Arc<Self>, action: Action, outbox: &Arc<Outbox>) -> Option<RunningCommand> {
        self.metrics.command(kind_of(&action)?);
        let runner = Arc::clone(self);
        let outbox = Arc::clone(outbox);
        Some(match action {
            Action::Nothing | Action::Reply(_) | Action::Close(_) | Action::Leave(..) => return None,
            Action::Open(grant) => holding(async move { runner.subscriptions.open(grant, &outbox).await }),
            Action::Join(join) => holding(async move { runner.subscriptions.join(join, &outbox).await }),
            Action::Publish(grant) => running(async move { runner.channels.publish(grant).await }),
            Action::Presence(grant) => running(async move { runner.channels.presence(grant).await }),
            Action::History(grant) => running(async move { runner.channels.history(grant).await }),
            Action::Rpc(call) => running(async move { runner.rpc.run(call).await }),
        })
    }
}

/// The kind of a command that takes time, as it is counted.
fn kind_of(action: &Action) -> Option<&'static str> {
    Some(match action {
        Action::Nothing | Action::Reply(_) | Action::Close(_) | Action::Leave(..) => return None,
        Action::Open(_) => "connect",
        Action::Join(_) => "subscribe",
        Action::Publish(_) => "publish",
        Action::Presence(_) => "presence",
        Action::History(_) => "history",
        Action::Rpc(_) => "rpc",
    })
}

fn holding(future: impl Future<Output = CommandOutcome> + Send + 'static) -> RunningCommand {
    RunningCommand { future: Box::pin(future), holds_outbox: true }
}

fn running(future: impl Future<Output = CommandOutcome> + Send + 'static) -> RunningCommand {
    RunningCommand { future: Box::pin(future), holds_outbox: false }
}
