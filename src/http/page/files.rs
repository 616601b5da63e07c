//! The files of the page as they are sent: modules and style sheets joined, comments removed, compressed, and kept in
//! memory.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use parking_lot::Mutex;
use rust_embed::RustEmbed;
use sha2::{Digest, Sha256};

use super::encoding::ContentEncoding;
use super::join;

/// The script of the page: the document asks for no other, but for that of its language.
const ENTRY: &str = "main.js";

/// The script of the views other than Home, which is loaded when somebody is about to leave it.
const LATER: &str = "views/more.js";

#[derive(RustEmbed)]
#[folder = "web/"]
struct WebAssets;

/// The files that were asked for, by path: no more than there are in `web/`.
static PREPARED: LazyLock<Mutex<HashMap<String, Arc<File>>>> = LazyLock::new(Mutex::default);

/// A file in each of its encodings.
pub(super) struct File {
    pub(super) media_type: &'static str,
    /// The hash of the source, which a debug build reads anew.
    source: [u8; 32],
    plain: EncodedFile,
    compressed: Vec<(ContentEncoding, EncodedFile)>,
}

/// A file in one encoding.
pub(super) struct EncodedFile {
    pub(super) bytes: Bytes,
    /// The value of `ETag`, which depends on the bytes alone.
    pub(super) tag: String,
}

impl EncodedFile {
    fn new(bytes: Vec<u8>) -> EncodedFile {
        let hash = Sha256::digest(&bytes);
        let digits: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        EncodedFile { bytes: bytes.into(), tag: format!("\"{digits}\"") }
    }
}

impl File {
    fn prepare(path: &str, source: Vec<u8>, hash: [u8; 32]) -> File {
        let media_type = media_type(path);
        let plain = match std::str::from_utf8(&source) {
            Ok(text) if is_code(path) => without_comments(text).into_bytes(),
            _ => source,
        };
        let encoded = |encoding: ContentEncoding| Some((encoding, EncodedFile::new(encoding.encode(&plain)?)));
        let compressed = ContentEncoding::COMPRESSED.into_iter().filter_map(encoded).collect();
        File { media_type, source: hash, plain: EncodedFile::new(plain), compressed }
    }

    /// The smallest form that a client accepts.
    pub(super) fn encoded_for(&self, accepted: &[&str]) -> (ContentEncoding, &EncodedFile) {
        let fitting = self.compressed.iter().find(|(encoding, _)| encoding.is_accepted(accepted));
        fitting.map_or((ContentEncoding::Identity, &self.plain), |(encoding, encoded)| (*encoding, encoded))
    }
}

/// A file of the page, or none of that path. The first request of a file compresses it, beside the runtime.
pub(super) async fn get(path: &str) -> Option<Arc<File>> {
    if !cfg!(debug_assertions)
        && let Some(file) = PREPARED.lock().get(path)
    {
        return Some(Arc::clone(file));
    }
    let path = path.to_owned();
    tokio::task::spawn_blocking(move || prepared(path)).await.ok().flatten()
}

fn prepared(path: String) -> Option<Arc<File>> {
    let source = source(&path)?;
    let hash: [u8; 32] = Sha256::digest(&source).into();
    if let Some(file) = PREPARED.lock().get(&path).filter(|file| file.source == hash) {
        return Some(Arc::clone(file));
    }
    let file = Arc::new(File::prepare(&path, source, hash));
    PREPARED.lock().insert(path, Arc::clone(&file));
    Some(file)
}

/// The bytes of a file, joined with those that it imports.
fn source(path: &str) -> Option<Vec<u8>> {
    let text = |path: &str| String::from_utf8(WebAssets::get(path)?.data.into_owned()).ok();
    let joined = match path {
        ENTRY => join::modules(ENTRY, LATER, &text).map(|scripts| scripts.first),
        LATER => join::modules(ENTRY, LATER, &text).map(|scripts| scripts.later),
        _ if path.ends_with(".css") => join::style_sheets(path, &text),
        _ => None,
    };
    joined.map(String::into_bytes).or_else(|| Some(WebAssets::get(path)?.data.into_owned()))
}

fn is_code(path: &str) -> bool {
    path.ends_with(".js") || path.ends_with(".css")
}

/// Removes indentation, comments that begin a line, and `/** … */`. The lines stay, so that an error in a file that is
/// not joined names the line of the source. `tests/page` checks that no string of the page looks like a comment, or
/// spans lines.
fn without_comments(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut in_comment = false;
    for line in text.lines() {
        let mut rest = line.trim();
        while !rest.is_empty() {
            if in_comment {
                let end = rest.find("*/").map(|at| at + 2);
                in_comment = end.is_none();
                rest = &rest[end.unwrap_or(rest.len())..];
            } else if rest.starts_with("//") {
                break;
            } else {
                let start = if rest.starts_with("/*") { Some(0) } else { rest.find("/**") };
                in_comment = start.is_some();
                code.push_str(&rest[..start.unwrap_or(rest.len())]);
                rest = &rest[start.unwrap_or(rest.len())..];
            }
        }
        code.push('\n');
    }
    code
}

fn media_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("json") => "application/json",
        Some("png") => "image/png",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::{source, without_comments};

    #[test]
    fn comments_and_indentation_are_removed_and_lines_stay() {
        let text =
            "// Why.\n/** A. */ export const a = \"http://a\"; // stays\n  /*\n   b\n   */ b(/** @type {X} */ (c));\n";
        assert_eq!(without_comments(text), "\n export const a = \"http://a\"; // stays\n\n\n b( (c));\n");
    }

    #[test]
    fn the_script_and_the_style_sheet_import_nothing() {
        for (path, part) in [("main.js", "class Timeline"), ("style/index.css", "--accent")] {
            let joined = source(path).and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
            assert!(joined.contains(part), "{path}");
            let left = joined.lines().find(|line| ["import ", "@import "].iter().any(|form| line.starts_with(form)));
            assert_eq!(left, None, "{path}");
        }
    }
}
