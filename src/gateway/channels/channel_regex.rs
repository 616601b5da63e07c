//! `channel_regex` of a namespace.

use regex::Regex;

use crate::settings::ConfigValue;
use crate::settings::parse::{self, ParseResult};

/// An expression that the names of channels must match. Matching takes time linear in the length of the name, whatever
/// the expression is.
#[derive(Clone, Debug)]
pub struct ChannelRegex(Regex);

impl ChannelRegex {
    /// The expression as it was written.
    pub(super) fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Whether some part of the name matches. `^` and `$` in the expression stand for the whole name.
    pub fn matches(&self, name: &str) -> bool {
        self.0.is_match(name)
    }
}

impl PartialEq for ChannelRegex {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Eq for ChannelRegex {}

/// Reads an expression; `None` if it is empty.
pub(super) fn read(value: &ConfigValue) -> ParseResult<Option<ChannelRegex>> {
    let Some(text) = parse::optional_text(value)? else { return Ok(None) };
    match Regex::new(&text) {
        Ok(regex) => Ok(Some(ChannelRegex(regex))),
        // The first lines of the error draw the expression; the last one has the reason.
        Err(error) => {
            let error = error.to_string();
            let reason = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
            Err(format!("is not a regular expression: {reason}"))
        }
    }
}
