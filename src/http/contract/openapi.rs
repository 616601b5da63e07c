//! The OpenAPI document.

use serde_json::{Map, Value, json};

use super::errors::{ErrorResponses, code_schema, detail_schema, error_schema, retry_after};
use super::events::event_schemas;
use super::events_poll::describe_poll;
use super::operation::{describe, shared_parameters};
use super::sample::fill;
use super::schemas::Schemas;
use super::server_method::{describe_batch, describe_method, describe_sequence};
use super::status::describe_status;
use crate::api::operations::Operations;
use crate::feed::LimitsConfig;
use crate::http::server_api::METHODS;
use crate::model::ChannelKind;

/// The OpenAPI 3.1 document of these operations below a base path, and of the events that are pushed.
pub(super) fn document(operations: &Operations, limits: &LimitsConfig, base: &str) -> Value {
    let mut schemas = Schemas::new();
    let mut paths: Map<String, Value> = Map::new();
    let mut errors = ErrorResponses::default();
    for operation in operations.all() {
        for (path, description) in describe(operation, &mut schemas, &mut errors) {
            let path = paths.entry(format!("/api/v1{path}")).or_insert_with(|| json!({}));
            path[operation.verb.as_str().to_lowercase()] = description;
        }
    }
    for method in METHODS {
        let description = describe_method(method, &mut schemas, &mut errors);
        paths.insert(format!("/api/{}", method.name), json!({ "post": description }));
    }
    paths.insert("/api/batch".into(), json!({ "post": describe_batch(&mut schemas, &mut errors) }));
    paths.insert("/api".into(), json!({ "post": describe_sequence(&mut schemas, &mut errors) }));
    paths.insert("/api/events".into(), json!({ "get": describe_poll(&mut schemas, &mut errors) }));
    paths.insert("/api/status".into(), json!({ "get": describe_status(&mut schemas, &mut errors) }));
    for (name, schema) in [("ErrorCode", code_schema()), ("ErrorDetail", detail_schema()), ("Error", error_schema())] {
        schemas.add(name, schema);
    }
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Feedline",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "The operations of the feed. Each operation that needs a token is an rpc method of the \
                same name over the socket, too: its input has the members of path, query and body. /api/asyncapi.json \
                describes the channels of the socket.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
            "x-limits": limits,
        },
        "servers": [{ "url": format!("{base}/"), "description": "This server. All paths are below this one." }],
        "paths": paths,
        "webhooks": webhooks(&mut schemas),
        "components": {
            "responses": errors.into_components(),
            "headers": { "RetryAfter": retry_after() },
            "parameters": shared_parameters(),
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer", "bearerFormat": "JWT" },
                "api_key": {
                    "type": "apiKey", "in": "header", "name": "X-API-Key",
                    "description": "A backend; X-User names the user it acts for, a user of the application \
                        unless X-User-Origin is account.",
                },
            },
        },
    });
    document["components"]["schemas"] = schemas.name_in(&mut document).into();
    fill(&mut document);
    document
}

/// Everything that is pushed, by type. Two events of the type `gone` have one description.
fn webhooks(schemas: &mut Schemas) -> Map<String, Value> {
    let events = event_schemas(schemas);
    let mut webhooks = Map::new();
    for event in &events {
        let same: Vec<_> = events.iter().filter(|other| other.kind == event.kind).collect();
        let schema = match &same[..] {
            [only] => only.schema.clone(),
            same => json!({ "oneOf": same.iter().map(|event| &event.schema).collect::<Vec<_>>() }),
        };
        let examples = same.iter().map(|event| (event.name.clone(), json!({ "value": event.example })));
        let channels: Vec<&str> = ChannelKind::ALL
            .iter()
            .filter(|kind| same.iter().any(|event| event.is_on(**kind)))
            .map(|kind| kind.prefix())
            .collect();
        let webhook = json!({
            "post": {
                "summary": same.iter().map(|event| &*event.description).collect::<Vec<_>>().join(" Or: "),
                "description": "Pushed over the socket, as the `data` of a publication on one of `x-channels`.",
                "tags": ["events"],
                "x-channels": channels,
                "requestBody": {
                    "required": true,
                    "content": { "application/json": {
                        "schema": schema, "examples": examples.collect::<Map<_, _>>(),
                    } },
                },
                "responses": { "204": { "description": "Received. Clients send no response over the socket." } },
            },
        });
        webhooks.insert(event.kind.clone(), webhook);
    }
    webhooks
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of the schemas. Generated clients use them as type names: a renamed Rust type keeps its schema's name
    /// with `#[schemars(rename = "...")]`.
    const SCHEMAS: &[&str] = &[
        "AcceptedLike",
        "ApnsEnvironment",
        "AppNotificationDraft",
        "AppNotified",
        "ApplicationInfo",
        "AuthorGoneEvent",
        "BatchCommand",
        "BatchCommandReply",
        "BatchReply",
        "BatchRequest",
        "BlockUserReply",
        "BlockUserRequest",
        "BroadcastReply",
        "BroadcastRequest",
        "BroadcastResponse",
        "BroadcastResult",
        "ChannelInfo",
        "ChannelRequest",
        "ChannelsReply",
        "ChannelsRequest",
        "ChannelsResult",
        "ClientInfo",
        "Command",
        "CommandReply",
        "Comment",
        "CommentCreatedEvent",
        "CommentDraft",
        "CommentEdit",
        "CommentEditedEvent",
        "CommentGoneEvent",
        "CommentId",
        "CommentOrder",
        "CommentPage",
        "CommentPolicy",
        "CommentRemoval",
        "CommonFavouritePage",
        "CountsEvent",
        "DeleteUserReply",
        "DeleteUserRequest",
        "DeploymentStatus",
        "Device",
        "DeviceId",
        "DeviceList",
        "DeviceRegistration",
        "DisconnectCode",
        "DisconnectReply",
        "DisconnectRequest",
        "Edges",
        "Empty",
        "Error",
        "ErrorCode",
        "ErrorDetail",
        "ExportUserReply",
        "ExportUserRequest",
        "ExportedCommentRow",
        "ExportedFavourite",
        "ExportedFollower",
        "ExportedKey",
        "ExportedList",
        "ExportedPost",
        "ExportedPostRow",
        "ExportedReport",
        "ExportedReportKind",
        "ExportedRestriction",
        "ExportedRestrictionKind",
        "ExportedTopicRow",
        "ExportedUserRow",
        "Favourite",
        "FavouriteCount",
        "FavouriteHolder",
        "FavouriteHolderPage",
        "FavouriteIds",
        "FavouritePage",
        "FavouriteStatus",
        "FavouriteStatusList",
        "Filter",
        "FilterAction",
        "FilterContext",
        "FilterDraft",
        "FilterId",
        "FilterPage",
        "FilterUpdate",
        "FiltersChangedEvent",
        "Follow",
        "FollowState",
        "FollowedTopic",
        "FollowedTopics",
        "GoneReason",
        "HistoryPosition",
        "HistoryRemoveReply",
        "HistoryReply",
        "HistoryRequest",
        "HistoryResult",
        "InfoReply",
        "InfoResult",
        "InvalidateUserTokensReply",
        "InvalidateUserTokensRequest",
        "LikeChangedEvent",
        "LikeRevertedEvent",
        "LikeSettledEvent",
        "LikeState",
        "List",
        "ListDraft",
        "ListId",
        "ListMemberPage",
        "ListUpdate",
        "Lists",
        "Location",
        "MarkNotificationsRead",
        "MarkTimelineRead",
        "Media",
        "MediaKind",
        "Mute",
        "NewFavourite",
        "Node",
        "NodeProcess",
        "NodeStatus",
        "Notification",
        "NotificationGoneEvent",
        "NotificationId",
        "NotificationPage",
        "NotificationPosition",
        "NotificationSubject",
        "NotificationUpdatedEvent",
        "NotificationsReadEvent",
        "ObjectId",
        "ObjectType",
        "OutletEvent",
        "OutletEventPage",
        "OutletNotification",
        "OutletObject",
        "OverrideValue",
        "PasswordChange",
        "Person",
        "Platform",
        "Position",
        "Post",
        "PostCreatedEvent",
        "PostDraft",
        "PostEdit",
        "PostEditedEvent",
        "PostGoneEvent",
        "PostId",
        "PostKind",
        "PostPage",
        "PostRemoval",
        "PostRepostedEvent",
        "PostVia",
        "PostWithPreview",
        "PresenceReply",
        "PresenceResult",
        "PresenceStats",
        "PresenceStatsReply",
        "Profile",
        "ProfileUpdate",
        "Publication",
        "PublishReply",
        "PublishRequest",
        "PublishResult",
        "PushKinds",
        "PushKindsInput",
        "PushPreferences",
        "PushPreferencesInput",
        "QuietHours",
        "Quotable",
        "QuoteState",
        "QuotedPost",
        "ReadMarker",
        "RecoverPosition",
        "RefreshReply",
        "RefreshRequest",
        "Removal",
        "Report",
        "ReportAction",
        "ReportClosing",
        "ReportDraft",
        "ReportId",
        "ReportPage",
        "ReportReason",
        "ReportTarget",
        "RepostDraft",
        "RepostVisibility",
        "RepostedBy",
        "RequestedPart",
        "RevertReason",
        "RevokeTokenReply",
        "RevokeTokenRequest",
        "RpcReply",
        "RpcRequest",
        "RpcResult",
        "ServerError",
        "Session",
        "SignIn",
        "SignUp",
        "SinglePost",
        "Standing",
        "SubscribeOverride",
        "SubscribeReply",
        "SubscribeRequest",
        "Suggestion",
        "SuggestionPage",
        "Suspension",
        "SuspensionLevel",
        "TimeOfDay",
        "TimelinePage",
        "TimelineReadEvent",
        "TimelineUpdate",
        "TimelineUpdatesPage",
        "Topic",
        "TopicPage",
        "UnblockUserReply",
        "UnblockUserRequest",
        "UnreadCounts",
        "UnsubscribeReply",
        "UnsubscribeRequest",
        "User",
        "UserDetails",
        "UserExport",
        "UserId",
        "UserPage",
        "Visibility",
        "WebPushKey",
        "WorkStatus",
    ];

    #[test]
    fn schemas_keep_their_names() {
        let limits = crate::config::Config::parse("", std::iter::empty()).unwrap().limits;
        let document = document(&Operations::new(), &limits, "");
        let schemas = document["components"]["schemas"].as_object().expect("an object");
        assert_eq!(schemas.keys().collect::<Vec<_>>(), SCHEMAS);
    }
}
