//! `[transports]`: how clients may connect.

use crate::settings::{parse, section};

section! {
    /// `[transports]`.
    #[derive(Copy)]
    pub struct TransportsConfig {
        /// `/connection/websocket`.
        pub websocket: bool = parse::boolean,
        /// `/connection/http_stream`, with `/emulation`.
        pub http_stream: bool = parse::boolean,
        /// `/connection/sse`, with `/emulation`.
        pub sse: bool = parse::boolean,
        /// `/connection/uni_websocket`.
        pub uni_websocket: bool = parse::boolean,
        /// `/connection/uni_http_stream`.
        pub uni_http_stream: bool = parse::boolean,
        /// `/connection/uni_sse`.
        pub uni_sse: bool = parse::boolean,
    }
}
