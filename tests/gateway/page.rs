//! The files of the page: their names, how long browsers keep them, and the limits that the document names.

use crate::server::{Answer, Server};

const FILES: [(&str, &str); 5] =
    [("/main.", ".js"), ("/views/more.", ".js"), ("/i18n/en.", ".js"), ("/i18n/zh.", ".js"), ("/style/index.", ".css")];

async fn get(server: &Server, path: &str) -> Answer {
    server.http("GET", path, &[], "").await
}

/// The addresses of [`FILES`] in the document.
async fn addresses(server: &Server) -> Vec<String> {
    let document = get(server, "/").await;
    assert_eq!(document.header("cache-control"), Some("no-cache"));
    let text = document.body.as_str().expect("a document").to_owned();
    let address = |(stem, ending): (&str, &str)| {
        let from = text.find(&format!("\"{stem}")).unwrap_or_else(|| panic!("{stem} in {text}")) + 1;
        let name = text[from..].split('"').next().unwrap_or_default();
        let hash = name.strip_prefix(stem).and_then(|rest| rest.strip_suffix(ending)).unwrap_or_default();
        assert!(hash.len() == 16 && hash.bytes().all(|digit| digit.is_ascii_hexdigit()), "{name}");
        name.to_owned()
    };
    FILES.map(address).into()
}

#[tokio::test]
async fn scripts_and_style_are_kept_by_the_hash_in_their_names() {
    let server = Server::start().await;
    let addresses = addresses(&server).await;
    for address in &addresses {
        let file = get(&server, address).await;
        assert_eq!(file.status, 200, "{address}");
        assert_eq!(file.header("cache-control"), Some("public, max-age=31536000, immutable"), "{address}");
        assert!(file.header("etag").is_some() && file.header("vary") == Some("accept-encoding"), "{address}");
    }
    let later = get(&server, &addresses[1]).await;
    let import = later.body.as_str().unwrap_or_default().lines().next().unwrap_or_default().to_owned();
    assert!(import.ends_with(&format!("from \"..{}\";", addresses[0])), "one first script: {import}");
}

#[tokio::test]
async fn files_with_plain_names_are_validated() {
    let server = Server::start().await;
    for path in ["/feedline/index.js", "/icon.svg", "/service-worker.js", "/main.js"] {
        let file = get(&server, path).await;
        assert_eq!((file.status.as_u16(), file.header("cache-control")), (200, Some("no-cache")), "{path}");
        let tag = file.header("etag").expect("a tag");
        let again = server.http("GET", path, &[("if-none-match", tag)], "").await;
        assert_eq!(again.status, 304, "{path}");
    }
}

#[tokio::test]
async fn a_page_of_another_build_gets_no_second_first_script() {
    let server = Server::start().await;
    for (stem, ending) in FILES {
        let old = get(&server, &format!("{stem}0123456789abcdef{ending}")).await;
        assert_eq!(old.status, 200, "{stem}");
        assert!(
            matches!(old.header("cache-control"), Some("no-cache" | "no-store")),
            "{stem}: not kept under that name"
        );
        let is_refusal = old.body.as_str().is_some_and(|text| text.starts_with("throw new SyntaxError("));
        assert_eq!(is_refusal, stem == "/views/more.", "{stem}");
    }
}

#[tokio::test]
async fn limits_are_in_the_document_and_the_contract() {
    let server = Server::start_with(&[("limits.text", "281"), ("limits.media", "3")]).await;
    let document = get(&server, "/").await;
    let text = document.body.as_str().expect("a document");
    assert!(text.contains("data-text-limit=\"281\"") && text.contains("data-media-limit=\"3\""), "{text}");
    let openapi = get(&server, "/api/openapi.json").await.body;
    let limits = &openapi["info"]["x-limits"];
    assert_eq!(
        (&limits["text"], &limits["media"], &limits["topics"]),
        (&281.into(), &3.into(), &10.into()),
        "{limits}"
    );
}
