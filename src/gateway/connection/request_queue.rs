//! What a connection does between the commands of its client: subscriptions that backends ask for, questions whether
//! something that a backend granted goes on, and checks whether the user may still see the posts and profiles of its
//! subscriptions.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::broker::ServerSubscription;
use crate::gateway::session::hook_answers::ask_about;
use crate::gateway::session::server_requests::{check_access, subscribe_for_backend};
use crate::gateway::session::{Action, ExpiryTarget, Session};
use crate::protocol::Disconnect;

/// Requests that may wait for a running command; with more, the client is slow.
const MAX_REQUESTS: usize = 1_024;

/// The requests that wait until no command is running. Most connections never have one.
#[derive(Debug, Default)]
pub(crate) struct RequestQueue {
    waiting: Option<Box<WaitingRequests>>,
}

#[derive(Debug, Default)]
struct WaitingRequests {
    requests: VecDeque<QueuedRequest>,
    /// The subscriptions are to be checked. One check covers all changes before it.
    checks_access: bool,
}

#[derive(Debug)]
enum QueuedRequest {
    /// A backend subscribes the client.
    Join(Arc<ServerSubscription>),
    /// The backend is asked whether this goes on.
    Expiry(ExpiryTarget),
}

impl RequestQueue {
    /// Adds a subscription.
    ///
    /// # Errors
    /// The close code, if too many requests wait.
    pub(crate) fn join(&mut self, subscription: Arc<ServerSubscription>) -> Result<(), Disconnect> {
        let waiting = &mut self.waiting.get_or_insert_default().requests;
        waiting.push_back(QueuedRequest::Join(subscription));
        if waiting.len() > MAX_REQUESTS { Err(Disconnect::SLOW) } else { Ok(()) }
    }

    /// Adds a question whether something goes on.
    pub(crate) fn ask(&mut self, target: ExpiryTarget) {
        self.waiting.get_or_insert_default().requests.push_back(QueuedRequest::Expiry(target));
    }

    /// Adds a check of the subscriptions.
    pub(crate) fn check_access(&mut self) {
        self.waiting.get_or_insert_default().checks_access = true;
    }

    /// The action of the next request.
    pub(crate) fn next(&mut self, session: &mut Session) -> Option<Action> {
        let waiting = self.waiting.as_mut()?;
        if std::mem::take(&mut waiting.checks_access) {
            return Some(check_access(session));
        }
        let Some(request) = waiting.requests.pop_front() else {
            self.waiting = None;
            return None;
        };
        Some(match request {
            QueuedRequest::Join(subscription) => subscribe_for_backend(session, &subscription),
            QueuedRequest::Expiry(target) => ask_about(session, target),
        })
    }
}
