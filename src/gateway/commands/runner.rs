//! Starts the commands that take time.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::channel_commands::ChannelCommands;
use super::hook_runner::HookRunner;
use super::outcome::CommandOutcome;
use super::rpc::RpcRunner;
use super::subscriptions::Subscriptions;
use crate::gateway::session::Action;
use crate::gateway::wire::outbox::Outbox;
use crate::metrics::Metrics;

/// A command that takes time.
pub(crate) struct RunningCommand {
    pub(crate) future: Pin<Box<dyn Future<Output = CommandOutcome> + Send>>,
    /// The command joins the client to channels: the outbox must not be written before its reply.
    pub(crate) holds_outbox: bool,
}

/// Waits for the running command, if there is one.
pub(crate) async fn running(running: &mut Option<RunningCommand>) -> CommandOutcome {
    match running {
        Some(running) => running.future.as_mut().await,
        None => std::future::pending().await,
    }
}

/// Runs commands of all clients.
pub(crate) struct CommandRunner {
    pub(crate) subscriptions: Subscriptions,
    pub(crate) channels: ChannelCommands,
    pub(crate) hooks: Arc<HookRunner>,
    pub(crate) rpc: RpcRunner,
    pub(crate) metrics: Arc<Metrics>,
}

impl CommandRunner {
    /// Starts the command of an action. `None` if the action takes no time.
    pub(crate) fn start(self: &Arc<Self>, action: Action, outbox: &Arc<Outbox>) -> Option<RunningCommand> {
        if let Some(kind) = kind_of(&action) {
            self.metrics.command(kind);
        }
        let runner = Arc::clone(self);
        let outbox = Arc::clone(outbox);
        Some(match action {
            Action::Nothing | Action::Reply(_) | Action::Close(_) | Action::Leave(..) | Action::Expire(_) => {
                return None;
            }
            Action::Ask(ask) => concurrent(async move {
                let (subject, question) = *ask;
                let answered = runner.hooks.ask(subject, question, outbox.format()).await;
                CommandOutcome::Answered(Box::new(answered))
            }),
            Action::AwaitKey(wait) => {
                concurrent(async move { CommandOutcome::KeyAwaited(Box::new((*wait).wait().await)) })
            }
            Action::Open(grant) => holding(async move { runner.subscriptions.open(grant, &outbox).await }),
            Action::Join(join) => holding(async move { runner.subscriptions.join(join, &outbox).await }),
            Action::JoinForBackend(join) => {
                holding(async move { runner.subscriptions.join_for_backend(join, &outbox).await })
            }
            Action::CheckAccess(check) => concurrent(async move { runner.subscriptions.check_access(*check).await }),
            Action::Publish(grant) => concurrent(async move { runner.channels.publish(grant).await }),
            Action::Presence(grant) => concurrent(async move { runner.channels.presence(grant).await }),
            Action::History(grant) => concurrent(async move { runner.channels.history(grant).await }),
            Action::Rpc(call) => concurrent(async move { runner.rpc.run(call, outbox.format()).await }),
        })
    }
}

/// The kind of a command that takes time, as it is counted.
fn kind_of(action: &Action) -> Option<&'static str> {
    Some(match action {
        // A question, or waiting for a key, is a part of a command that follows.
        Action::Nothing
        | Action::Reply(_)
        | Action::Close(_)
        | Action::Leave(..)
        | Action::Expire(_)
        | Action::CheckAccess(_)
        | Action::Ask(_)
        | Action::AwaitKey(_) => return None,
        Action::Open(_) => "connect",
        Action::Join(_) | Action::JoinForBackend(_) => "subscribe",
        Action::Publish(_) => "publish",
        Action::Presence(_) => "presence",
        Action::History(_) => "history",
        Action::Rpc(_) => "rpc",
    })
}

fn holding(future: impl Future<Output = CommandOutcome> + Send + 'static) -> RunningCommand {
    RunningCommand { future: Box::pin(future), holds_outbox: true }
}

fn concurrent(future: impl Future<Output = CommandOutcome> + Send + 'static) -> RunningCommand {
    RunningCommand { future: Box::pin(future), holds_outbox: false }
}
