//! The schemas of events.

use schemars::SchemaGenerator;
use serde_json::{Value, json};

use super::examples::events;
use super::schemas::Schemas;
use crate::model::{ChannelKind, ClientEvent};

/// A kind of event.
pub(super) struct EventSchema {
    /// The name of its schema.
    pub(super) name: String,
    /// The `type` of its events.
    pub(super) kind: String,
    /// Its meaning, for clients.
    pub(super) description: String,
    /// A reference to its schema.
    pub(super) schema: Value,
    /// An event.
    pub(super) example: Value,
    /// The kinds of channels that have it.
    channels: Vec<String>,
}

impl EventSchema {
    /// Whether channels of this kind have it.
    pub(super) fn is_on(&self, kind: ChannelKind) -> bool {
        self.channels.iter().any(|channel| channel == kind.as_str())
    }
}

/// Every kind of event, in the order of [`ClientEvent`], and the schemas they use.
pub(super) fn event_schemas(schemas: &mut Schemas) -> Vec<EventSchema> {
    let mut event = schemas.take_output(SchemaGenerator::subschema_for::<ClientEvent<'static>>);
    let variants = event["oneOf"].as_array_mut().map(std::mem::take).unwrap_or_default();
    let mut examples = events().unwrap_or_default();
    variants
        .into_iter()
        .map(|mut variant| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let name = variant["title"].take();
            let channels = variant["x-channels"].take();
            if let Some(keywords) = variant.as_object_mut() {
                keywords.retain(|_, value| !value.is_null());
            }
            let name = text(&name);
            let example = examples.remove(&*name).unwrap_or_default();
            variant["examples"] = json!([example]);
            EventSchema {
                kind: text(&variant["properties"]["type"]["const"]),
                description: text(&variant["description"]).replace('\n', " "),
                channels: channels.as_array().map(|it| it.iter().map(text).collect()).unwrap_or_default(),
                schema: schemas.add(&name, variant),
                example,
                name,
            }
        })
        .collect()
}
