//! The files of the page as they are sent: modules and style sheets joined, comments removed, compressed, and kept in
//! memory. Scripts and style have a hash of their content in their names, so browsers keep them.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;
use rust_embed::RustEmbed;
use sha2::{Digest, Sha256};

use super::encoding::ContentEncoding;
use super::join;

/// The script of the page: the document asks for no other, but for that of its language.
const ENTRY: &str = "main.js";

/// The script of the views other than Home, which is loaded when somebody is about to leave it.
pub(super) const LATER: &str = "views/more.js";

/// The files that the document names. Their names have a hash of their content.
pub(super) const HASHED: [&str; 5] = ["style/index.css", ENTRY, LATER, "i18n/en.js", "i18n/zh.js"];

/// The number of bytes of the hash in a name, each two digits.
const HASH_BYTES: usize = 8;

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
    /// The hash of the content in the name.
    hash: String,
    plain: EncodedFile,
    compressed: OnceLock<Vec<(ContentEncoding, EncodedFile)>>,
}

/// A file in one encoding.
pub(super) struct EncodedFile {
    pub(super) bytes: Bytes,
    /// The value of `ETag`, which depends on the bytes alone.
    pub(super) tag: String,
}

impl EncodedFile {
    fn new(bytes: Vec<u8>) -> EncodedFile {
        let tag = format!("\"{}\"", hash_of(&bytes, 16));
        EncodedFile { bytes: bytes.into(), tag }
    }
}

/// The first bytes of the SHA-256 hash, in hexadecimal digits.
fn hash_of(content: &[u8], bytes: usize) -> String {
    Sha256::digest(content).iter().take(bytes).map(|byte| format!("{byte:02x}")).collect()
}

impl File {
    pub(super) fn new(path: &str, source: Vec<u8>) -> File {
        let source_hash = Sha256::digest(&source).into();
        let plain = match std::str::from_utf8(&source) {
            Ok(text) if is_code(path) => without_comments(text).into_bytes(),
            _ => source,
        };
        File {
            media_type: media_type(path),
            source: source_hash,
            hash: hash_of(&plain, HASH_BYTES),
            plain: EncodedFile::new(plain),
            compressed: OnceLock::new(),
        }
    }

    /// The name of the file of this path with the hash of its content: `main.0123456789abcdef.js`.
    pub(super) fn hashed_name(&self, path: &str) -> String {
        named(path, &self.hash)
    }

    /// Whether the file was made of this source.
    pub(super) fn is_of(&self, source: &[u8]) -> bool {
        self.source == <[u8; 32]>::from(Sha256::digest(source))
    }

    /// Encodes the file unless it was, which takes a while.
    pub(super) fn compress(&self) -> &[(ContentEncoding, EncodedFile)] {
        self.compressed.get_or_init(|| {
            let plain = &self.plain.bytes;
            let encoded = |encoding: ContentEncoding| Some((encoding, EncodedFile::new(encoding.encode(plain)?)));
            ContentEncoding::COMPRESSED.into_iter().filter_map(encoded).collect()
        })
    }

    /// The smallest form that a client accepts.
    pub(super) fn encoded_for(&self, accepted: &[&str]) -> (ContentEncoding, &EncodedFile) {
        let fitting = self.compress().iter().find(|(encoding, _)| encoding.is_accepted(accepted));
        fitting.map_or((ContentEncoding::Identity, &self.plain), |(encoding, encoded)| (*encoding, encoded))
    }
}

/// A file of the page, or none of that path. The first request of a file compresses it, beside the runtime.
pub(super) async fn get(path: &str) -> Option<Arc<File>> {
    if let Some(file) = unchanged(path).filter(|file| file.compressed.get().is_some()) {
        return Some(file);
    }
    let path = path.to_owned();
    let prepare = move || {
        let file = prepared(&path)?;
        file.compress();
        Some(file)
    };
    tokio::task::spawn_blocking(prepare).await.ok().flatten()
}

/// Whether the page has a file of this path.
pub(super) fn has(path: &str) -> bool {
    WebAssets::get(path).is_some()
}

/// The text of a file as it is in `web/`.
pub(super) fn text(path: &str) -> Option<String> {
    String::from_utf8(WebAssets::get(path)?.data.into_owned()).ok()
}

/// A file that was prepared before and cannot have changed: a debug build reads the files anew.
fn unchanged(path: &str) -> Option<Arc<File>> {
    if cfg!(debug_assertions) { None } else { PREPARED.lock().get(path).cloned() }
}

fn prepared(path: &str) -> Option<Arc<File>> {
    if let Some(file) = unchanged(path) {
        return Some(file);
    }
    let source = source(path)?;
    if let Some(file) = PREPARED.lock().get(path).filter(|file| file.is_of(&source)) {
        return Some(Arc::clone(file));
    }
    let file = Arc::new(File::new(path, source));
    PREPARED.lock().insert(path.to_owned(), Arc::clone(&file));
    Some(file)
}

/// The name of a file with the hash of its content; `None` if there is no such file. May read it.
pub(super) fn hashed_name(path: &str) -> Option<String> {
    Some(prepared(path)?.hashed_name(path))
}

fn named(path: &str, hash: &str) -> String {
    let (stem, ending) = path.rsplit_once('.').unwrap_or((path, ""));
    format!("{stem}.{hash}.{ending}")
}

/// The file that a name with any hash stands for.
pub(super) fn unhashed(name: &str) -> Option<&'static str> {
    HASHED.into_iter().find(|path| {
        let (stem, ending) = path.rsplit_once('.').unwrap_or((path, ""));
        let hash = name.strip_prefix(stem).and_then(|rest| rest.strip_suffix(ending));
        let hash = hash.and_then(|rest| rest.strip_prefix('.')?.strip_suffix('.'));
        hash.is_some_and(|hash| hash.len() == 2 * HASH_BYTES && hash.bytes().all(|digit| digit.is_ascii_hexdigit()))
    })
}

/// The bytes of a file, joined with those that it imports.
fn source(path: &str) -> Option<Vec<u8>> {
    let scripts = || {
        let above = "../".repeat(LATER.matches('/').count());
        let address = |first: &str| above + &named(ENTRY, &hash_of(without_comments(first).as_bytes(), HASH_BYTES));
        join::modules(ENTRY, LATER, &text, address)
    };
    let joined = match path {
        ENTRY => scripts().map(|scripts| scripts.first),
        LATER => scripts().map(|scripts| scripts.later),
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
    use super::{ENTRY, HASHED, LATER, hashed_name, source, unhashed, without_comments};

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

    #[test]
    fn the_second_script_imports_the_first_by_its_hashed_name() {
        let later = source(LATER).and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
        let import = format!(" from \"../{}\";\n", hashed_name(ENTRY).unwrap());
        assert!(later.starts_with("import {") && later.contains(&import));
    }

    #[test]
    fn hashed_names_stand_for_their_files() {
        for path in HASHED {
            assert_eq!(hashed_name(path).as_deref().and_then(unhashed), Some(path));
        }
        assert_eq!(unhashed("views/more.0123456789abcdef.js"), Some(LATER));
        for name in
            ["main.js", "main.0123456789abcde.js", "main.0123456789abcdeg.js", "app.0123456789abcdef.js", "main.js.js"]
        {
            assert_eq!(unhashed(name), None, "{name}");
        }
    }
}
