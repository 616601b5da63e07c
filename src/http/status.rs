//! `GET /api/status`: the state of the deployment, for operators with an API key.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};

use super::answers::json_answer;
use super::server_api::authenticate;
use crate::auth::ApiKeys;
use crate::feed::{DeploymentStatus, Feed, WorkStatus, now};
use crate::reloadable::Reloadable;

/// The parts that the answer is made of.
pub(super) struct StatusApi {
    pub(super) api_keys: Reloadable<ApiKeys>,
    pub(super) feed: Arc<Feed>,
}

/// Serves `GET /api/status`.
pub(super) async fn serve(State(api): State<Arc<StatusApi>>, request: Request) -> Response<Body> {
    let (parts, _) = request.into_parts();
    if let Err(response) = authenticate(&api.api_keys.get(), &parts) {
        return *response;
    }
    let base = &api.feed.base;
    let health = api.feed.store_health().await;
    let broker = if base.broker.place().starts_with("memory") { "memory" } else { "redis" };
    let trouble = health.stores.iter().find(|(name, _)| *name == "broker").and_then(|(_, trouble)| trouble.clone());
    let stores = BTreeMap::from([(broker, trouble.unwrap_or_else(|| "ok".to_owned()))]);
    let likes = api.feed.likes_backlog().await.map(|backlog| WorkStatus::of_likes(backlog, now()));
    let status = DeploymentStatus::read(&*base.ledger, stores, likes, now()).await;
    json_answer(StatusCode::OK, serde_json::to_string(&status).unwrap_or_default())
}
