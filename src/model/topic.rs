//! Names of topics.

/// The longest name of a topic, in characters.
const MAX_TOPIC_LENGTH: usize = 100;

/// Whether a text, without the `#`, names a topic.
pub fn is_topic(name: &str) -> bool {
    (1..=MAX_TOPIC_LENGTH).contains(&name.chars().count()) && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// Whether a text is the name of a topic as it is stored: lower case, without the `#`.
pub fn is_topic_name(name: &str) -> bool {
    is_topic(name) && name.to_lowercase() == name
}
