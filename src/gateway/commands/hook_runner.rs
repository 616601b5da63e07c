//! Asks the application's backend for sessions.

use std::sync::Arc;

use crate::gateway::session::{AnsweredHook, HookQuestion, HookSubject, RpcCall};
use crate::gateway::wire::message_format::MessageFormat;
use crate::hooks::{
    ConnectQuestion, HookAnswer, HookClient, HookClientInfo, HookFailure, HookKind, Hooks, RpcAnswer, SessionQuestion,
};
use crate::model::{UserId, canonical_name};
use crate::protocol::Encoding;

/// Asks for sessions; without hooks, every question fails.
pub(crate) struct HookRunner {
    pub(crate) hooks: Option<Arc<Hooks>>,
}

impl HookRunner {
    /// Asks a question of a session whose connection has this format.
    pub(crate) async fn ask(
        &self,
        subject: HookSubject,
        question: HookQuestion,
        format: MessageFormat,
    ) -> AnsweredHook {
        let headers = subject.headers.as_deref();
        let asker = &HookClient { user: subject.user.as_ref(), address: subject.address };
        let client = client_info(&subject.client, format);
        let about = SessionQuestion {
            client,
            user: subject.user.as_ref().map_or("", UserId::shown),
            channel: None,
            method: None,
            data: None,
            meta: subject.meta.as_deref(),
        };
        let hooks = self.hooks.as_deref().ok_or(HookFailure::NotConfigured);
        match question {
            HookQuestion::Connect(id, request) => {
                let question = ConnectQuestion {
                    client: about.client,
                    name: &request.name,
                    version: &request.version,
                    data: request.data.as_deref(),
                    channels: request.subs.keys().map(String::as_str).collect(),
                };
                let outcome = match hooks {
                    Ok(hooks) => hooks.ask(HookKind::Connect, asker, headers, &question).await,
                    Err(failure) => Err(failure),
                };
                AnsweredHook::Connect(id, request, outcome)
            }
            HookQuestion::Subscribe(id, request) => {
                let channel = canonical_name(&request.channel);
                let question = SessionQuestion { channel: Some(&channel), data: request.data.as_deref(), ..about };
                let outcome = match hooks {
                    Ok(hooks) => hooks.ask(HookKind::Subscribe, asker, headers, &question).await,
                    Err(failure) => Err(failure),
                };
                AnsweredHook::Subscribe(id, request, outcome)
            }
            HookQuestion::Publish(grant, data) => {
                let question = SessionQuestion { channel: Some(&grant.name), data: Some(&data), ..about };
                let outcome = match hooks {
                    Ok(hooks) => hooks.ask(HookKind::Publish, asker, headers, &question).await,
                    Err(failure) => Err(failure),
                };
                AnsweredHook::Publish(grant, outcome)
            }
            HookQuestion::Refresh => AnsweredHook::Refresh(match hooks {
                Ok(hooks) => hooks.ask(HookKind::Refresh, asker, headers, &about).await,
                Err(failure) => Err(failure),
            }),
            HookQuestion::SubRefresh(channel) => {
                let question = SessionQuestion { channel: Some(&channel), ..about };
                let outcome = match hooks {
                    Ok(hooks) => hooks.ask(HookKind::SubRefresh, asker, headers, &question).await,
                    Err(failure) => Err(failure),
                };
                AnsweredHook::SubRefresh(channel, outcome)
            }
        }
    }

    /// Whether the backend is asked for methods that are not operations.
    pub(crate) fn has_rpc(&self) -> bool {
        self.hooks.as_ref().is_some_and(|hooks| hooks.asks(HookKind::Rpc))
    }

    /// Asks for the reply to a method that is not an operation.
    pub(crate) async fn rpc(
        &self,
        call: &RpcCall,
        format: MessageFormat,
    ) -> Result<HookAnswer<RpcAnswer>, HookFailure> {
        let hooks = self.hooks.as_deref().ok_or(HookFailure::NotConfigured)?;
        let question = SessionQuestion {
            client: client_info(&call.client, format),
            user: call.user.as_ref().map_or("", UserId::shown),
            channel: None,
            method: Some(&call.method),
            data: call.data.as_deref(),
            meta: call.meta.as_deref(),
        };
        let asker = HookClient { user: call.user.as_ref(), address: call.address };
        hooks.ask(HookKind::Rpc, &asker, call.headers.as_deref(), &question).await
    }
}

fn client_info(client: &str, format: MessageFormat) -> HookClientInfo<'_> {
    let protocol = match format.encoding() {
        Encoding::Json => "json",
        Encoding::Protobuf => "protobuf",
    };
    HookClientInfo { client, transport: format.transport(), protocol, encoding: "json" }
}
