//! `GET /api/events`: the long poll of the outlet, for backends with an API key.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};

use super::answers::json_answer;
use super::operations::refuse;
use super::query::read_query;
use super::server_api::authenticate;
use crate::auth::ApiKeys;
use crate::feed::outlet::PollOutlet;
use crate::feed::{Feed, FeedError};
use crate::reloadable::Reloadable;

/// The parts that the long poll uses.
pub(super) struct OutletApi {
    pub(super) api_keys: Reloadable<ApiKeys>,
    pub(super) feed: Arc<Feed>,
}

/// Serves `GET /api/events?consumer=…&cursor=…&limit=…&wait=…`.
pub(super) async fn serve(State(api): State<Arc<OutletApi>>, request: Request) -> Response<Body> {
    let (parts, _) = request.into_parts();
    if let Err(response) = authenticate(&api.api_keys.get(), &parts) {
        return *response;
    }
    let poll = match input(parts.uri.query().unwrap_or_default()) {
        Ok(poll) => poll,
        Err(error) => return refuse(&error),
    };
    match api.feed.outlet.poll(poll).await {
        Ok(events) => json_answer(StatusCode::OK, events),
        Err(error) => refuse(&error),
    }
}

fn input(query: &str) -> Result<PollOutlet, FeedError> {
    let mut poll = PollOutlet::default();
    for (name, value) in read_query(query)? {
        let value = value.as_str().unwrap_or_default();
        match name.as_str() {
            "consumer" => value.clone_into(&mut poll.consumer),
            "cursor" => poll.cursor = Some(number("cursor", value)?),
            "limit" => poll.limit = Some(number("limit", value)?),
            "wait" => poll.wait = Some(number("wait", value)?),
            // The API key may be in the query.
            _ => {}
        }
    }
    Ok(poll)
}

fn number<T: std::str::FromStr>(field: &'static str, value: &str) -> Result<T, FeedError> {
    value.parse().map_err(|_| FeedError::invalid(field, format!("{field} is a whole number")))
}
