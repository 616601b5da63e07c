//! The documents: generated tables match the code, links and paths lead to files, lines are short.
//!
//! A generated table is between `<!-- generated: NAME -->` and `<!-- end -->`.
//! `FEEDLINE_BLESS=1 cargo test --test docs` rewrites the tables that differ.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use feedline::api::ErrorKind;
use feedline::api::operations::{Access, Operation, Operations};
use feedline::logs::{LogQueue, LogWriter, Repeats};
use feedline::metrics::{Levels, Metrics, TextFormat};
use feedline::model::{ChannelKind, ClientEvent};
use feedline::protocol::{Disconnect, ErrorCode, Unsubscribe};
use feedline::store_metrics::StoreMeter;

/// The longest line outside of tables, in characters.
const MAX_LINE_LENGTH: usize = 120;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every page, keyed by its path in the repository.
fn pages() -> BTreeMap<String, String> {
    let files = |folder: &str| {
        let entries = fs::read_dir(root().join(folder)).unwrap();
        entries.map(|entry| PathBuf::from(folder).join(entry.unwrap().file_name())).collect::<Vec<_>>()
    };
    let pages = files("").into_iter().chain(files("docs"));
    let names =
        pages.filter(|path| path.extension().is_some_and(|it| it == "md")).map(|path| path.display().to_string());
    names.map(|name| (name.clone(), read(&name))).collect()
}

/// Paths of the repository's files that the documents and tests refer to.
fn files() -> Vec<String> {
    let mut files = Vec::new();
    let mut folders: Vec<PathBuf> =
        ["src", "bench", "tests", "web", "scripts", "fuzz", "docs", ".ci"].iter().map(PathBuf::from).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            match entry.file_type().unwrap().is_dir() {
                true if matches!(entry.file_name().to_str(), Some("target" | "node_modules")) => {}
                true => folders.push(path),
                false => files.push(path.display().to_string()),
            }
        }
    }
    files.sort();
    files
}

fn row(cells: &[&str]) -> String {
    let cells: Vec<String> = cells.iter().map(|cell| cell.trim().replace('|', "\\|")).collect();
    format!("| {} |\n", cells.join(" | "))
}

fn code(text: impl std::fmt::Display) -> String {
    format!("`{text}`")
}

fn operations() -> String {
    let caller = |operation: &Operation| match operation.access {
        Access::Open => "anyone",
        Access::Reader => "reader",
        Access::User => "user",
        Access::Backend => "backend",
    };
    let units = |operation: &Operation| operation.page_cost().map_or("–".to_owned(), |units| units.to_string());
    let mut table = row(&["rpc method", "HTTP", "caller", "units", "effect"]) + "|---|---|---|---:|---|\n";
    for operation in Operations::new().all() {
        let method = if operation.is_rpc() { code(operation.name) } else { "–".to_owned() };
        let http = operation.paths.iter().map(|path| code(format!("{} {path}", operation.verb.as_str())));
        let http = http.collect::<Vec<_>>().join("<br>");
        table += &row(&[&method, &http, caller(operation), &units(operation), operation.summary]);
    }
    table
}

fn errors() -> String {
    let mut table = row(&["code", "HTTP status and rpc code", "temporary", "meaning"]) + "|---|---:|---|---|\n";
    for ErrorKind { code: name, status, is_temporary, meaning } in ErrorKind::ALL {
        let temporary = if *is_temporary { "yes" } else { "no" };
        table += &row(&[&code(name), &status.to_string(), temporary, meaning]);
    }
    table
}

fn close_codes() -> String {
    let mut table = row(&["code", "reason", "SDKs reconnect", "meaning"]) + "|---:|---|---|---|\n";
    for (close, meaning) in Disconnect::ALL {
        let reconnects = if matches!(close.code, 3000..=3499 | 4000..=4499) { "yes" } else { "no" };
        table += &row(&[&close.code.to_string(), &code(&close.reason), reconnects, meaning]);
    }
    table
}

fn command_errors() -> String {
    let mut table = row(&["code", "message", "temporary", "meaning"]) + "|---:|---|---|---|\n";
    for (error, meaning) in ErrorCode::ALL {
        let temporary = if error.temporary { "yes" } else { "no" };
        table += &row(&[&error.code.to_string(), &code(error.message), temporary, meaning]);
    }
    table
}

fn unsubscribe_codes() -> String {
    let mut table = row(&["code", "reason", "SDKs subscribe again", "meaning"]) + "|---:|---|---|---|\n";
    for (unsubscribe, meaning) in Unsubscribe::ALL {
        let again = if unsubscribe.code >= 2500 { "yes" } else { "no" };
        table += &row(&[&unsubscribe.code.to_string(), &code(unsubscribe.reason), again, meaning]);
    }
    table
}

/// The keys of a namespace, from the example at the end of `config.toml`.
fn namespace_keys() -> String {
    let text = read("config.toml");
    let (_, example) = text.split_once("# [[namespaces]]\n").unwrap();
    let mut table = row(&["key", "example", "meaning"]) + "|---|---|---|\n";
    let mut meaning = String::new();
    for line in example.lines().filter_map(|line| line.strip_prefix("# ")) {
        if let Some(comment) = line.strip_prefix("# ") {
            let _ = write!(meaning, "{comment} ");
        } else if let Some((key, value)) = line.split_once(" = ") {
            table += &row(&[&code(key), &code(value), &std::mem::take(&mut meaning)]);
        }
    }
    table
}

/// Labels are those of a sample, so each family without known labels gets a value here.
fn metrics() -> String {
    let metrics = Metrics::new();
    // The thread that writes a line is a supervised task.
    let log = LogQueue::start(std::io::sink(), Repeats::default()).unwrap();
    LogWriter(Arc::clone(&log)).write_all(b"a line\n").unwrap();
    log.flush();
    metrics.requests.operation("", "", Duration::ZERO);
    metrics.requests.http_request("", 200, Duration::ZERO);
    StoreMeter::ledger().begin().succeed();
    metrics.outlet.published("");
    metrics.outlet.delivered("");
    metrics.outlet.rejected("", "");
    metrics.outlet.failed("");
    metrics.outlet.missed("", 0);
    metrics.outlet.backlog("", 0, 0, 0);
    let text = metrics.text(Levels::default(), TextFormat::OpenMetrics);
    let words = |prefix| text.lines().filter_map(move |line: &str| line.strip_prefix(prefix)?.split_once(' '));
    let kinds: BTreeMap<&str, &str> = words("# TYPE ").collect();
    let labels = |name: &str| {
        let sample =
            |line: &&str| ["", "_total", "_count"].iter().any(|end| line.starts_with(&format!("{name}{end}{{")));
        let (_, labels) = text.lines().find(sample)?.split_once('{')?;
        let names =
            labels.split('"').step_by(2).filter_map(|part| Some(code(part.trim_start_matches(',').strip_suffix('=')?)));
        Some(names.collect::<Vec<_>>().join(", "))
    };
    let mut table = row(&["metric", "type", "labels", "meaning"]) + "|---|---|---|---|\n";
    let mut count = 0;
    for (name, help) in words("# HELP ") {
        let sample = if kinds[name] == "counter" { format!("{name}_total") } else { name.to_owned() };
        table += &row(&[&code(sample), kinds[name], &labels(name).unwrap_or_default(), help.trim_end_matches('.')]);
        count += 1;
    }
    let files = ["mod", "fanout", "likes", "outlet_metrics", "process", "pushes", "requests"]
        .map(|file| format!("src/metrics/{file}.rs"));
    let files = files
        .iter()
        .map(|file| read(file))
        .chain(["src/store_metrics.rs", "src/denials.rs", "src/telemetry/exporter.rs"].map(read));
    let registered: usize = files.map(|file| file.matches("r.register").count()).sum();
    assert_eq!(count, registered, "a metric without a value: give it one above");
    table
}

/// The events, from the JSON schema of their enum.
fn events() -> String {
    let schema = schemars::schema_for!(ClientEvent).to_value();
    let mut table = row(&["type", "channels", "members", "meaning"]) + "|---|---|---|---|\n";
    for variant in schema["oneOf"].as_array().unwrap() {
        let members = variant["properties"].as_object().unwrap();
        let kind = code(members["type"]["const"].as_str().unwrap());
        let channels = variant["x-channels"].as_array().unwrap().iter().map(|kind| {
            let kind = kind.as_str().unwrap();
            let known = ChannelKind::ALL.into_iter().find(|known| known.as_str() == kind).expect(kind);
            code(known.prefix())
        });
        let channels = channels.collect::<Vec<_>>().join(", ");
        let meaning = variant["description"].as_str().unwrap().replace('\n', " ");
        let required: Vec<&str> = variant["required"].as_array().unwrap().iter().filter_map(|it| it.as_str()).collect();
        let members = members
            .keys()
            .filter(|name| *name != "type")
            .map(|name| if required.contains(&name.as_str()) { code(name) } else { format!("[{}]", code(name)) });
        table += &row(&[&kind, &channels, &members.collect::<Vec<_>>().join(", "), &meaning]);
    }
    table
}

/// For each folder of `src/`: the other folders that it imports from. `model/` is omitted, as nearly all folders use
/// it.
fn dependencies() -> String {
    let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let files = files().into_iter().filter(|path| path.starts_with("src/") && path.ends_with(".rs"));
    for path in files.filter(|path| !path.ends_with("tests.rs")) {
        let text = read(&path);
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default().lines();
        let code = code.filter(|line| !line.trim_start().starts_with("//"));
        let folder = path.split('/').nth(1).unwrap().trim_end_matches(".rs");
        let prefix = if matches!(folder, "main" | "cli") { "feedline::" } else { "crate::" };
        let names = code.flat_map(|line| line.split(prefix).skip(1)).map(|rest| {
            let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
            rest[..end].to_owned()
        });
        let exists =
            |name: &String| root().join("src").join(name).is_dir() || root().join(format!("src/{name}.rs")).exists();
        let names = names.filter(|name| !name.is_empty());
        uses.entry(folder.to_owned()).or_default().extend(names.filter(|name| exists(name) && *name != folder));
    }
    let mut table = row(&["folder", "uses"]) + "|---|---|\n";
    for (folder, mut names) in uses {
        names.remove("model");
        if !names.is_empty() {
            table += &row(&[&code(folder), &names.into_iter().map(code).collect::<Vec<_>>().join(", ")]);
        }
    }
    table
}

/// Generates the table of this name.
fn generate(name: &str) -> String {
    match name {
        "operations" => operations(),
        "errors" => errors(),
        "close codes" => close_codes(),
        "command errors" => command_errors(),
        "unsubscribe codes" => unsubscribe_codes(),
        "namespaces" => namespace_keys(),
        "metrics" => metrics(),
        "dependencies" => dependencies(),
        "events" => events(),
        _ => panic!("no table is called {name:?}"),
    }
}

/// The page with its tables regenerated, and the names of those tables.
fn regenerate(page: &str) -> (String, Vec<String>) {
    let (mut new, mut rest, mut names) = (String::new(), page, Vec::new());
    while let Some((before, after)) = rest.split_once("<!-- generated: ") {
        let (name, after) = after.split_once(" -->\n").expect("the marker ends its line");
        let (_, after) = after.split_once("<!-- end -->").expect("a generated table ends");
        let _ = write!(new, "{before}<!-- generated: {name} -->\n{}<!-- end -->", generate(name));
        names.push(name.to_owned());
        rest = after;
    }
    (new + rest, names)
}

#[test]
fn generated_tables_match_the_code() {
    let bless = std::env::var_os("FEEDLINE_BLESS").is_some();
    let (mut found, mut stale) = (Vec::new(), Vec::new());
    for (name, page) in pages() {
        let (new, names) = regenerate(&page);
        found.extend(names);
        if new != page {
            stale.push(name.clone());
            if bless {
                fs::write(root().join(&name), new).unwrap();
            }
        }
    }
    found.sort();
    let all = [
        "close codes",
        "command errors",
        "dependencies",
        "errors",
        "events",
        "metrics",
        "namespaces",
        "operations",
        "unsubscribe codes",
    ];
    assert_eq!(found, all, "every table is on one page");
    assert!(bless || stale.is_empty(), "{stale:?} differ from the code: FEEDLINE_BLESS=1 cargo test --test docs");
}

/// The anchor that GitHub generates for a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The lines of a page outside code blocks.
fn prose(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    page.lines().zip(1..).filter_map(move |(line, number)| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        (!in_code && !fence).then_some((number, line))
    })
}

#[test]
fn links_lead_to_files_and_headings() {
    let pages = pages();
    let anchors = |page: &str| -> BTreeSet<String> {
        prose(page)
            .filter(|(_, line)| line.starts_with('#'))
            .map(|(_, line)| anchor(line.trim_matches(['#', ' '])))
            .collect()
    };
    let mut broken = Vec::new();
    for (name, page) in &pages {
        let folder = root().join(name).parent().unwrap().to_path_buf();
        for (number, line) in prose(page) {
            for link in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                let (path, heading) = link.split_once('#').unwrap_or((link, ""));
                if path.contains("://") {
                    continue;
                }
                let target = if path.is_empty() { root().join(name) } else { folder.join(path) };
                let text = fs::read_to_string(&target).unwrap_or_default();
                if !target.exists() || !(heading.is_empty() || anchors(&text).contains(heading)) {
                    broken.push(format!("{name}:{number}: {link}"));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn lines_outside_of_tables_are_short() {
    let mut long = Vec::new();
    let is_text = |path: &String| {
        let ends_with = |ends: &[&str]| ends.iter().any(|end| path.ends_with(end));
        let starts_with = |folders: &[&str]| folders.iter().any(|folder| path.starts_with(folder));
        // JSON strings cannot contain line breaks, pictures have no lines, the types of the API, of the client and of
        // Protobuf are generated, and applied migrations never change.
        let page = starts_with(&["web/", "scripts/", ".ci/"])
            && !ends_with(&[".png", ".svg", ".json", "api.d.ts"])
            && !starts_with(&["web/feedline/types/"]);
        let source = starts_with(&["src/", "bench/", "tests/", "fuzz/"])
            && ends_with(&[".rs", ".lua", ".sql", ".mjs", ".java", ".proto"])
            && !ends_with(&["generated.rs"])
            && !path.contains("/migrations/");
        page || source || path.ends_with(".toml")
    };
    let others = ["Cargo.toml", "Makefile", "clippy.toml", "config.toml"].map(str::to_owned);
    let others = others.into_iter().chain(files().into_iter().filter(is_text)).map(|path| (path.clone(), read(&path)));
    for (name, page) in pages().into_iter().chain(others) {
        let lines =
            page.lines().zip(1..).filter(|(line, _)| !line.trim_start_matches(['/', '!', ' ']).starts_with('|'));
        long.extend(
            lines.filter(|(line, _)| line.chars().count() > MAX_LINE_LENGTH).map(|(_, n)| format!("{name}:{n}")),
        );
    }
    assert!(long.is_empty(), "longer than {MAX_LINE_LENGTH} characters: {long:#?}");
}

/// Paths may start below any folder (`broker/epoch.rs`); `*` and `<concept>` match any one name.
#[test]
fn paths_in_documents_exist() {
    let files = files();
    let has = |span: &str| {
        let parts: Vec<&str> = span.trim_end_matches('/').split('/').collect();
        files.iter().any(|file| {
            let names: Vec<&str> = file.split('/').collect();
            let fits = |names: &[&str]| {
                names.iter().zip(&parts).all(|(name, part)| {
                    let (before, after) = part.split_once(['*', '<']).unwrap_or((part, ""));
                    let after = after.split_once('>').map_or(after, |(_, after)| after);
                    name == part || (part.contains(['*', '<']) && name.starts_with(before) && name.ends_with(after))
                })
            };
            let windows = names.windows(parts.len());
            if span.ends_with('/') { windows.take(names.len() - 1).any(fits) } else { windows.last().is_some_and(fits) }
        })
    };
    let is_path = |span: &&str| {
        let file = [".rs", ".lua", ".sql"].iter().any(|end| span.ends_with(end));
        let folder = ["src/", "tests/", "scripts/", "web/"].iter().any(|begin| span.starts_with(begin));
        !span.contains([' ', ':']) && (file || folder || (span.ends_with('/') && !span.starts_with('/')))
    };
    let mut missing = Vec::new();
    for (name, page) in pages() {
        for (number, line) in prose(&page) {
            let spans = line.split('`').skip(1).step_by(2).filter(is_path);
            missing.extend(spans.filter(|span| !has(span)).map(|span| format!("{name}:{number}: {span}")));
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// The metrics that a query names.
fn metrics_in(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("feedline_") || word.starts_with("process_"))
}

#[test]
fn alerts_and_panels_use_metrics_that_exist() {
    let operations = read("docs/operations.md");
    let known = metrics();
    let exists = |name: &str| {
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|part| name.strip_suffix(part)).unwrap_or(name);
        known.contains(&format!("| {} |", code(family)))
    };
    let alerts = read("ops/alerts.yml");
    let rules: Vec<&str> = alerts.split("- alert: ").skip(1).collect();
    assert!(rules.len() >= 8);
    for rule in rules {
        let name = rule.lines().next().unwrap();
        assert!(operations.contains(&code(name)), "{name} is not documented");
        assert!(rule.contains("severity: ") && rule.contains("summary: "), "{name}");
    }
    let dashboard: serde_json::Value = serde_json::from_str(&read("ops/grafana.json")).unwrap();
    let targets = dashboard["panels"].as_array().unwrap().iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let queries: Vec<&str> = targets.map(|target| target["expr"].as_str().unwrap()).collect();
    let used = queries.iter().flat_map(|query| metrics_in(query)).chain(metrics_in(&alerts));
    let unknown: Vec<&str> = used.filter(|name| !exists(name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}
