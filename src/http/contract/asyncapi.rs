//! The AsyncAPI document: the channels of the feed, their subscribers, and the events on each.

use serde_json::{Map, Value, json};

use super::events::{EventSchema, event_schemas};
use super::schemas::Schemas;
use crate::model::ChannelKind;

/// The AsyncAPI 3.0 document of everything that is pushed.
pub(super) fn document(base: &str) -> Value {
    let mut schemas = Schemas::new();
    let events = event_schemas(&mut schemas);
    let all = ChannelKind::ALL;
    let mut channels: Map<String, Value> =
        all.iter().map(|kind| (kind.as_str().to_owned(), channel(*kind, &events))).collect();
    channels.insert("application".into(), application_channel());
    let operations: Map<String, Value> = channels.iter().map(|(name, channel)| operation(name, channel)).collect();
    let mut messages: Map<String, Value> = events.iter().map(|event| (event.name.clone(), message(event))).collect();
    messages.insert("ApplicationData".into(), application_message());
    let mut document = json!({
        "asyncapi": "3.0.0",
        "info": {
            "title": "Feedline",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Everything that the server pushes. Clients speak the Centrifuge client protocol over one \
                of the servers below, which are its transports; each message is the `data` of a publication on the \
                channel. Publications of a channel have contiguous offsets. /api/openapi.json describes the \
                operations.",
            "license": { "name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0" },
        },
        "defaultContentType": "application/json",
        "servers": servers(base),
        "channels": channels,
        "operations": operations,
        "components": {
            "messages": messages,
            "securitySchemes": { "token": {
                "type": "http", "scheme": "bearer", "bearerFormat": "JWT",
                "description": "The `token` of the connect command. Without one, a connection is anonymous, if \
                    `auth.anonymous` allows that.",
            } },
        },
    });
    document["components"]["schemas"] = schemas.name_in(&mut document).into();
    document
}

/// The transports: name, protocol, path, description.
const TRANSPORTS: [[&str; 4]; 6] = [
    [
        "websocket",
        "ws",
        "/connection/websocket",
        "JSON in text frames or Protobuf in binary ones; wss behind a proxy that ends TLS.",
    ],
    [
        "http_stream",
        "http",
        "/connection/http_stream",
        "The answer to a POST is a stream of lines of JSON, or of Protobuf messages. Commands go to `POST /emulation` \
            with the `session` and `node` of the reply to connect.",
    ],
    [
        "sse",
        "http",
        "/connection/sse",
        "Server-sent events with JSON; the connect command is in the query as `cf_connect`. Commands as for \
            `http_stream`.",
    ],
    [
        "uni_websocket",
        "ws",
        "/connection/uni_websocket",
        "Unidirectional: the client sends the connect request alone, the server subscribes it. Off by default.",
    ],
    [
        "uni_http_stream",
        "http",
        "/connection/uni_http_stream",
        "Unidirectional: the body of the POST is the connect request. Off by default.",
    ],
    [
        "uni_sse",
        "http",
        "/connection/uni_sse",
        "Unidirectional server-sent events; the connect request is in the query as `cf_connect`. Off by default.",
    ],
];

/// The transports as servers, below a base path. The section `[transports]` of the configuration turns each on or off.
fn servers(base: &str) -> Map<String, Value> {
    let server = |[name, protocol, path, description]: [&str; 4]| {
        let server = json!({
            "host": "{host}",
            "protocol": protocol,
            "pathname": format!("{base}{path}"),
            "description": description,
            "variables": {
                "host": { "default": "127.0.0.1:8000", "description": "The host and port of the server." },
            },
            "security": [{ "$ref": "#/components/securitySchemes/token" }],
        });
        (name.to_owned(), server)
    };
    TRANSPORTS.into_iter().map(server).collect()
}

/// References to all transports.
fn transports() -> Value {
    TRANSPORTS.iter().map(|[name, ..]| json!({ "$ref": format!("#/servers/{name}") })).collect()
}

/// The parameter of the address of a kind of channel, with its meaning; the contents; the subscribers.
fn descriptions(kind: ChannelKind) -> [&'static str; 4] {
    match kind {
        ChannelKind::Timeline => [
            "user",
            "The id of the user.",
            "The timeline of a user. Its log is recoverable; `read` has no offset and is not part of it.",
            "The user alone: the server subscribes each connection of the user.",
        ],
        ChannelKind::List => {
            ["id", "The number of the list.", "The posts of a list. Its log is recoverable.", "The owner of the list."]
        }
        ChannelKind::Notifications => [
            "user",
            "The id of the user.",
            "The notifications of a user, and the settlement of likes. `notifications.read`, `like.settled` and \
                `like.changed` have no offset and are not part of the log.",
            "The user alone: the server subscribes each connection of the user.",
        ],
        ChannelKind::User => [
            "id",
            "The id of the author.",
            "The posts of one author.",
            "Everyone who can see the profile. Subscribers receive only posts that they can see.",
        ],
        ChannelKind::Topic => [
            "name",
            "The topic in lower case, without the `#`.",
            "The posts of one topic.",
            "Everyone. Subscribers receive only posts that they can see.",
        ],
        ChannelKind::Post => [
            "id",
            "The id of the post.",
            "The comments, counts and changes of one post.",
            "Everyone who can see the post. Subscribers receive only comments that they can see.",
        ],
    }
}

fn channel(kind: ChannelKind, events: &[EventSchema]) -> Value {
    let [parameter, meaning, contents, subscribers] = descriptions(kind);
    let messages = events
        .iter()
        .filter(|event| event.is_on(kind))
        .map(|event| (event.name.clone(), json!({ "$ref": format!("#/components/messages/{}", event.name) })));
    json!({
        "address": format!("{}{{{parameter}}}", kind.prefix()),
        "summary": contents,
        "description": format!("Who may subscribe: {subscribers}"),
        "x-subscribers": subscribers,
        "servers": transports(),
        "parameters": { parameter: { "description": meaning } },
        "messages": messages.collect::<Map<_, _>>(),
    })
}

/// Channels of namespaces: the contents belong to the application.
fn application_channel() -> Value {
    let subscribers = "Clients that the namespace, a subscription token or the connect token admits.";
    json!({
        "address": "{namespace}:{name}",
        "summary": "Channels of the application, one namespace for each kind.",
        "description": format!("Who may subscribe: {subscribers}"),
        "x-subscribers": subscribers,
        "servers": transports(),
        "parameters": {
            "namespace": { "description": "A configured namespace." },
            "name": { "description": "Anything." },
        },
        "messages": { "ApplicationData": { "$ref": "#/components/messages/ApplicationData" } },
    })
}

fn operation(name: &str, channel: &Value) -> (String, Value) {
    let names = channel["messages"].as_object().into_iter().flat_map(Map::keys);
    let messages = names.map(|message| json!({ "$ref": format!("#/channels/{name}/messages/{message}") }));
    let operation = json!({
        "action": "send",
        "summary": "Pushed to subscribers.",
        "channel": { "$ref": format!("#/channels/{name}") },
        "messages": messages.collect::<Vec<_>>(),
    });
    (format!("push.{name}"), operation)
}

fn message(event: &EventSchema) -> Value {
    json!({
        "name": event.kind,
        "title": event.name,
        "summary": event.description,
        "payload": event.schema,
        "examples": [{ "payload": event.example }],
    })
}

fn application_message() -> Value {
    json!({
        "name": "data",
        "title": "ApplicationData",
        "summary": "What a backend or a client published: any JSON.",
        "payload": {},
        "examples": [{ "payload": { "hello": "all" } }],
    })
}
