//! The first segments of the paths that this server answers.
//!
//! No base path begins with one: below it, a path that a proxy has kept would look like one that it has removed the
//! base path from.

/// Those of the views of the page. `web/router.js` has the same list.
const VIEWS: [&str; 13] = [
    "post",
    "user",
    "topic",
    "topics",
    "explore",
    "notifications",
    "favourites",
    "search",
    "settings",
    "sign-in",
    "sign-up",
    "moderation",
    "requests",
];

/// Those of the API, the sockets and the probes.
const ENDPOINTS: [&str; 6] = ["api", "connection", "emulation", "health", "ready", "metrics"];

/// Whether the segment begins the address of a view.
pub fn is_view(segment: &str) -> bool {
    VIEWS.contains(&segment)
}

/// Whether the segment begins a path of this server.
pub fn is_own(segment: &str) -> bool {
    is_view(segment) || ENDPOINTS.contains(&segment)
}
