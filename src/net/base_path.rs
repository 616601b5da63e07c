//! The path below which clients reach this server, such as `/feed` of `https://example.org/feed/`.

use std::sync::Arc;

use axum::http::{Extensions, HeaderMap, HeaderName};

const X_FORWARDED_PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");

/// The longest base path, in bytes.
const MAX_LENGTH: usize = 128;

/// A base path without a slash at its end; empty at the root of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct BasePath(Arc<str>);

impl BasePath {
    /// Parses `/feed` or `/feed/`; an empty text and `/` are the root. `None` if a segment is empty, `.` or `..`, if a
    /// character would have to be encoded somewhere, or if the path is too long.
    pub fn parse(text: &str) -> Option<Self> {
        let path = text.strip_suffix('/').unwrap_or(text);
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        let is_segment =
            |segment: &str| !segment.is_empty() && segment.bytes().all(is_plain) && !matches!(segment, "." | "..");
        let is_valid = match path.strip_prefix('/') {
            Some(segments) => path.len() <= MAX_LENGTH && segments.split('/').all(is_segment),
            None => path.is_empty(),
        };
        is_valid.then(|| Self(path.into()))
    }

    /// The path that a proxy has removed, as it says; `None` if it says none, several, or an invalid one.
    pub fn forwarded(headers: &HeaderMap) -> Option<Self> {
        let mut values = headers.get_all(X_FORWARDED_PREFIX).iter();
        let only = values.next().filter(|_| values.next().is_none())?;
        Self::parse(only.to_str().ok()?)
    }

    /// The base path of a request, once the listener and the router have noted it.
    pub fn of(extensions: &Extensions) -> Self {
        extensions.get::<Self>().cloned().unwrap_or_default()
    }

    /// Whether this is the root of a host.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The path, empty at the root.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The rest of a path below this one, which begins with a slash or is empty.
    pub fn strip<'a>(&self, path: &'a str) -> Option<&'a str> {
        path.strip_prefix(&*self.0).filter(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn base_paths_are_plain_paths() {
        for (text, path) in
            [("", ""), ("/", ""), ("/feed", "/feed"), ("/feed/", "/feed"), ("/a.b/~c-d_1", "/a.b/~c-d_1")]
        {
            assert_eq!(BasePath::parse(text).expect(text).as_str(), path);
        }
        let long = format!("/{}", "a".repeat(MAX_LENGTH));
        for text in [
            "feed",
            "//",
            "//feed",
            "/feed//",
            "/a//b",
            "/..",
            "/a/../b",
            "/./a",
            "/a b",
            "/a%2fb",
            "/a\"b",
            "/a?b",
            "/a#b",
            "/a<b",
            "/a\\b",
            "/é",
            "https://x",
            "/a,/b",
            "/a;b",
            &long,
        ] {
            assert_eq!(BasePath::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_path_is_below_whole_segments() {
        let feed = BasePath::parse("/feed").unwrap();
        assert_eq!(feed.strip("/feed/post/1"), Some("/post/1"));
        assert_eq!(feed.strip("/feed"), Some(""));
        assert_eq!(feed.strip("/feedline"), None);
        assert_eq!(BasePath::default().strip("/post"), Some("/post"));
    }

    #[test]
    fn one_forwarded_prefix_counts() {
        let headers = |values: &[&'static str]| {
            let value = |value: &&'static str| (X_FORWARDED_PREFIX, HeaderValue::from_static(value));
            HeaderMap::from_iter(values.iter().map(value))
        };
        assert_eq!(BasePath::forwarded(&headers(&["/feed/"])), BasePath::parse("/feed"));
        for values in [&[][..], &["/a", "/b"], &["/a, /b"], &["//evil.example"]] {
            assert_eq!(BasePath::forwarded(&headers(values)), None, "{values:?}");
        }
    }
}
