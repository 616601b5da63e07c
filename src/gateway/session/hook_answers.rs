//! What the answers of the application's backend mean for a session.
//!
//! A command that the backend decides became a question; its answer becomes the action of the command. A connection or
//! subscription that the backend granted until some time is asked about again at that time. If the backend does not
//! answer, commands are refused with a temporary error, and what is granted stays for another minute.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::actions::{Action, AnsweredHook, HookOutcome, HookQuestion, PublishGrant};
use super::close_codes::disconnect;
use super::command_refusal::error_reply;
use super::connect::{self, Proven};
use super::hook_expiries::{self, ExpiryTarget};
use super::hook_questions::ask;
use super::subscribe;
use super::time::SessionTime;
use super::{Session, SessionState};
use crate::auth::SubscribeOptions;
use crate::denials::{Denied, deny};
use crate::hooks::{
    ConnectAnswer, HookAnswer, HookKind, MalformedAnswer, PublishAnswer, RefreshAnswer, SubscribeAnswer, expiry,
    json_of,
};
use crate::model::{UserId, canonical_name};
use crate::protocol::{
    ConnectRequest, Disconnect, ErrorCode, Reply, SubscribeRequest, publication_members, to_portable,
};

/// How long a grant stays if the backend does not answer, in seconds.
const FAILURE_GRACE: u64 = 60;

/// The action for an answer that is not a result.
fn refused<T>(id: u32, outcome: HookOutcome<T>) -> Result<T, Box<Action>> {
    match outcome {
        Ok(HookAnswer::Result(result)) => Ok(result),
        Ok(HookAnswer::Error(error)) => {
            deny(Denied::Hook, "error", &error.code);
            Err(reply(error_reply(id, error)))
        }
        Ok(HookAnswer::Disconnect(reason)) => {
            deny(Denied::Hook, "disconnect", &reason.code);
            Err(close(disconnect(reason)))
        }
        Err(error) => {
            deny(Denied::Hook, "no answer", &format_args!("{error:?}"));
            Err(failed(id))
        }
    }
}

/// The reply to a command whose question failed.
fn failed(id: u32) -> Box<Action> {
    reply(Reply::refused(id, ErrorCode::INTERNAL))
}

fn reply(reply: Reply) -> Box<Action> {
    Box::new(Action::Reply(reply))
}

fn close(reason: Disconnect) -> Box<Action> {
    Box::new(Action::Close(reason))
}

/// Asks whether the connection, or the subscription to a channel, goes on.
pub(crate) fn ask_about(session: &mut Session, target: ExpiryTarget) -> Action {
    if let ExpiryTarget::Subscription(channel) = &target
        && !session.subscriptions.contains(channel)
    {
        hook_expiries::remove(&mut session.hook_expiries, channel);
        return Action::Nothing;
    }
    let question = match target {
        ExpiryTarget::Connection => HookQuestion::Refresh,
        ExpiryTarget::Subscription(channel) => HookQuestion::SubRefresh(channel),
    };
    ask(&session.context, session.identity(), question)
}

/// The action for the answer of the backend.
pub(crate) fn answered(session: &mut Session, answered: AnsweredHook, now: SessionTime) -> Action {
    let action = match answered {
        AnsweredHook::Connect(id, request, outcome) => connect_answered(session, id, &request, outcome, now),
        AnsweredHook::Subscribe(id, request, outcome) => subscribe_answered(session, id, *request, outcome, now),
        AnsweredHook::Publish(grant, outcome) => publish_answered(*grant, outcome),
        AnsweredHook::Refresh(outcome) => refresh_answered(session, &ExpiryTarget::Connection, outcome, now),
        AnsweredHook::SubRefresh(channel, outcome) => {
            refresh_answered(session, &ExpiryTarget::Subscription(channel), outcome, now)
        }
    };
    action.unwrap_or_else(|refusal| *refusal)
}

fn connect_answered(
    session: &mut Session,
    id: u32,
    request: &ConnectRequest,
    outcome: HookOutcome<ConnectAnswer>,
    now: SessionTime,
) -> Result<Action, Box<Action>> {
    // Until it is granted.
    session.state = SessionState::Refused;
    let answer = refused(id, outcome)?;
    let expires_at = expiry(answer.expire_at);
    let proven = proven(answer).map_err(|MalformedAnswer| failed(id))?;
    let (identity, grant, data) = connect::connect_proven(&session.context, id, request, proven)
        .map_err(|refusal| Box::new(refusal.into_action(id)))?;
    session.state = SessionState::Opening(identity, data);
    if session.context.options.hooks.asks(HookKind::Refresh) {
        hook_expiries::set(&mut session.hook_expiries, &ExpiryTarget::Connection, expires_at);
    } else if let SessionState::Opening(identity, _) = &mut session.state {
        identity.expires_at = expires_at;
    }
    if expires_at.is_some_and(|at| at <= now.unix) {
        return Err(close(Disconnect::EXPIRED));
    }
    Ok(Action::Open(grant))
}

fn subscribe_answered(
    session: &mut Session,
    id: u32,
    request: SubscribeRequest,
    outcome: HookOutcome<SubscribeAnswer>,
    now: SessionTime,
) -> Result<Action, Box<Action>> {
    let answer = refused(id, outcome)?;
    let expires_at = expiry(answer.expire_at);
    let options = subscribe_options(answer).map_err(|MalformedAnswer| failed(id))?;
    if expires_at.is_some_and(|at| at <= now.unix) {
        return Err(reply(Reply::refused(id, ErrorCode::EXPIRED)));
    }
    let SessionState::Open(identity) = &session.state else { return Err(failed(id)) };
    let channel = session.context.options.channels.find(&request.channel);
    let channel = channel.ok_or_else(|| reply(Reply::refused(id, ErrorCode::UNKNOWN_CHANNEL)))?;
    let target = ExpiryTarget::Subscription(canonical_name(&request.channel).into());
    let mut join = subscribe::join_with(&session.context, identity, id, request, channel, options);
    if session.context.options.hooks.asks(HookKind::SubRefresh) {
        hook_expiries::set(&mut session.hook_expiries, &target, expires_at);
    } else {
        join.expires_at = expires_at;
    }
    Ok(Action::Join(join))
}

fn refresh_answered(
    session: &mut Session,
    target: &ExpiryTarget,
    outcome: HookOutcome<RefreshAnswer>,
    now: SessionTime,
) -> Result<Action, Box<Action>> {
    let next = match outcome {
        Ok(HookAnswer::Disconnect(reason)) => return Err(close(disconnect(reason))),
        Ok(HookAnswer::Result(answer)) => {
            let next = expiry(answer.expire_at);
            if answer.expired || next.is_some_and(|at| at <= now.unix) {
                hook_expiries::set(&mut session.hook_expiries, target, None);
                return Err(match target {
                    ExpiryTarget::Connection => close(Disconnect::EXPIRED),
                    ExpiryTarget::Subscription(channel) if session.subscriptions.is_server_side(channel) => {
                        close(Disconnect::SUBSCRIPTION_EXPIRED)
                    }
                    ExpiryTarget::Subscription(channel) => Box::new(Action::Expire(Arc::clone(channel))),
                });
            }
            next
        }
        Ok(HookAnswer::Error(_)) | Err(_) => Some(now.unix + FAILURE_GRACE),
    };
    // The client may have unsubscribed meanwhile.
    if hook_expiries::contains(&session.hook_expiries, target) {
        hook_expiries::set(&mut session.hook_expiries, target, next);
    }
    Ok(Action::Nothing)
}

/// The identity that an answer to `connect` proves.
fn proven(answer: ConnectAnswer) -> Result<Proven, MalformedAnswer> {
    let user = match answer.user.as_str() {
        "" => None,
        user => Some(UserId::parse(user).filter(|user| !user.is_reserved()).ok_or(MalformedAnswer)?),
    };
    let info = json_of(answer.info, &answer.b64info)?;
    let data = json_of(answer.data, &answer.b64data)?;
    let subs = answer.subs.into_iter().map(|(channel, options)| Ok((channel, subscribe_options(options)?)));
    let subs = subs.collect::<Result<_, MalformedAnswer>>()?;
    let info = checked(info)?;
    let data = checked(data)?;
    let meta = checked(answer.meta.filter(|meta| meta.get() != "null"))?;
    Ok(Proven { user, info, data, meta, channels: answer.channels, subs })
}

fn subscribe_options(answer: SubscribeAnswer) -> Result<SubscribeOptions, MalformedAnswer> {
    let info = checked(json_of(answer.info, &answer.b64info)?)?;
    let data = checked(json_of(answer.data, &answer.b64data)?)?;
    Ok(SubscribeOptions { info, data, replaced: answer.replaced })
}

/// JSON that clients can decode, on one line.
fn checked(json: Option<Box<RawValue>>) -> Result<Option<Box<RawValue>>, MalformedAnswer> {
    json.map(|json| to_portable(&json).ok_or(MalformedAnswer)).transpose()
}

fn publish_answered(mut grant: PublishGrant, outcome: HookOutcome<PublishAnswer>) -> Result<Action, Box<Action>> {
    let id = grant.id;
    let answer = refused(id, outcome)?;
    let data = json_of(answer.data, &answer.b64data).and_then(checked).map_err(|MalformedAnswer| failed(id))?;
    if let Some(data) = data {
        grant.members = publication_members(data.get(), Some(&grant.info), None);
    }
    grant.skip_history = answer.skip_history;
    Ok(Action::Publish(grant))
}
