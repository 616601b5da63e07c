//! The document of the page. It names the other files below the base path, those of scripts and style with the hash of
//! their content, and the limits that the page has to know.

use std::sync::Arc;

use super::files::{self, File, HASHED};
use crate::feed::LimitsConfig;
use crate::http::per_base_path::PerBasePath;
use crate::net::BasePath;

const SOURCE: &str = "index.html";

/// The limits, as the source has them: the length of the text of a post or comment, and the number of media of a post.
const TEXT_LIMIT: &str = "data-text-limit=\"5000\"";
const MEDIA_LIMIT: &str = "data-media-limit=\"9\"";

/// The documents by base path.
pub(in crate::http) struct PageDocuments {
    limits: LimitsConfig,
    made: PerBasePath<Arc<File>>,
}

impl PageDocuments {
    pub(in crate::http) fn new(limits: LimitsConfig) -> Self {
        Self { limits, made: PerBasePath::default() }
    }

    /// The document below a base path; `None` if the binary has no page.
    pub(super) async fn get(self: &Arc<Self>, base: BasePath) -> Option<Arc<File>> {
        if !cfg!(debug_assertions)
            && let Some(file) = self.made.get(&base)
        {
            return Some(file);
        }
        let documents = Arc::clone(self);
        tokio::task::spawn_blocking(move || documents.make(base)).await.ok().flatten()
    }

    fn make(&self, base: BasePath) -> Option<Arc<File>> {
        let text = self.text(&base)?;
        // A debug build reads the files anew.
        if let Some(file) = self.made.get(&base).filter(|file| file.is_of(text.as_bytes())) {
            return Some(file);
        }
        let file = Arc::new(File::new(SOURCE, text.into_bytes()));
        file.compress();
        self.made.insert(base, Arc::clone(&file));
        Some(file)
    }

    fn text(&self, base: &BasePath) -> Option<String> {
        let mut text = files::text(SOURCE)?;
        for path in HASHED {
            text = text.replace(&format!("=\"/{path}\""), &format!("=\"/{}\"", files::hashed_name(path)?));
        }
        let text = text.replace(TEXT_LIMIT, &format!("data-text-limit=\"{}\"", self.limits.text));
        let text = text.replace(MEDIA_LIMIT, &format!("data-media-limit=\"{}\"", self.limits.media));
        Some(text.replace("=\"/", &format!("=\"{}/", base.as_str())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_names_each_hashed_file_below_the_base_path() {
        let limits = crate::config::Config::parse("[limits]\ntext = 281", std::iter::empty()).unwrap().limits;
        let text = PageDocuments::new(limits).text(&BasePath::parse("/feed").unwrap()).unwrap();
        for path in HASHED {
            assert!(text.contains(&format!("=\"/feed/{}\"", files::hashed_name(path).unwrap())), "{path}: {text}");
        }
        assert!(text.contains("data-text-limit=\"281\"") && text.contains("href=\"#main\""), "{text}");
        assert_eq!(text.matches("=\"/").count(), text.matches("=\"/feed/").count(), "{text}");
    }
}
