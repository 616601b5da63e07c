//! `[transports]`: how clients may connect.

use super::layers::SectionReader;
use super::parse;

/// `[transports]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransportsConfig {
    /// `/connection/websocket`.
    pub websocket: bool,
    /// `/connection/http_stream`, with `/emulation`.
    pub http_stream: bool,
    /// `/connection/sse`, with `/emulation`.
    pub sse: bool,
    /// `/connection/uni_websocket`.
    pub uni_websocket: bool,
    /// `/connection/uni_http_stream`.
    pub uni_http_stream: bool,
    /// `/connection/uni_sse`.
    pub uni_sse: bool,
}

impl TransportsConfig {
    pub(super) fn read(mut section: SectionReader<'_>) -> Self {
        Self {
            websocket: section.read("websocket", parse::boolean),
            http_stream: section.read("http_stream", parse::boolean),
            sse: section.read("sse", parse::boolean),
            uni_websocket: section.read("uni_websocket", parse::boolean),
            uni_http_stream: section.read("uni_http_stream", parse::boolean),
            uni_sse: section.read("uni_sse", parse::boolean),
        }
    }
}
