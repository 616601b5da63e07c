//! Options of one subscription that replace those of its namespace.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Replaces options of the namespace for one subscription. A token, a hook or the server API sets it, in the form of
/// Centrifugo: `{"presence": {"value": true}}`. Absent members leave the option of the namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SubscribeOverride {
    /// Whether the client is kept in the presence of the channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub presence: Option<OverrideValue>,
    /// Whether the join and the leave of the client are pushed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub join_leave: Option<OverrideValue>,
    /// Whether the client receives joins and leaves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force_push_join_leave: Option<OverrideValue>,
    /// Whether the client can recover. Only in a channel with a history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force_recovery: Option<OverrideValue>,
    /// Whether the client follows the position of the channel. Only in a channel with a history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force_positioning: Option<OverrideValue>,
}

/// The value of an option.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OverrideValue {
    /// The value.
    pub value: bool,
}

/// The value that applies: that of the override, or else that of the namespace.
pub fn overridden(value: Option<OverrideValue>, namespace: bool) -> bool {
    value.map_or(namespace, |value| value.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_override_has_the_form_of_centrifugo() {
        let json = r#"{"presence":{"value":true},"join_leave":{},"force_recovery":null,"unknown":{"value":true}}"#;
        let parsed: SubscribeOverride = serde_json::from_str(json).unwrap();
        assert_eq!(parsed.presence, Some(OverrideValue { value: true }));
        assert_eq!(parsed.join_leave, Some(OverrideValue { value: false }));
        assert_eq!(parsed.force_recovery, None);
        assert!(overridden(parsed.presence, false) && overridden(None, true) && !overridden(parsed.join_leave, true));
        assert_eq!(serde_json::to_string(&SubscribeOverride::default()).unwrap(), "{}");
    }
}
