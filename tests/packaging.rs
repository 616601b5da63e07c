//! The files that package and deploy the server. What needs Docker, a cluster or root is not run here:
//! docs/deployment.md says what that is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use feedline::config::Config;
use serde_json::Value;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A file of YAML as JSON. `None`, with a printed line: Python has no parser of YAML here.
fn yaml(path: &str) -> Option<Value> {
    const PROGRAM: &str = "import json, sys, yaml\nprint(json.dumps(yaml.safe_load(open(sys.argv[1]))))";
    let has_parser = Command::new("python3").args(["-c", "import yaml"]).stderr(Stdio::null()).status();
    if !has_parser.is_ok_and(|status| status.success()) {
        assert!(std::env::var_os("CI").is_none(), "python3-yaml is missing: scripts/install-deps installs it");
        println!("skipped: {path} was not parsed, python3-yaml is missing");
        return None;
    }
    let parsed = Command::new("python3").args(["-c", PROGRAM]).arg(root().join(path)).output().unwrap();
    assert!(parsed.status.success(), "{path}: {}", String::from_utf8_lossy(&parsed.stderr));
    Some(serde_json::from_slice(&parsed.stdout).unwrap())
}

/// Whether the name of an image has a version: without one, or with `latest`, each build may get another image.
fn has_version(image: &str) -> bool {
    image.split_once(':').is_some_and(|(_, tag)| tag.starts_with(|c: char| c.is_ascii_digit()))
}

/// Checks names and values of variables as a start does.
fn check_environment(file: &str, variables: &BTreeMap<String, String>) {
    let checked = Config::parse("", variables.clone().into_iter());
    assert!(checked.is_ok(), "{file}: {}", checked.err().unwrap());
}

/// The instructions of the Dockerfile, each in one line.
fn instructions() -> Vec<(String, String)> {
    let text = read("Dockerfile").replace("\\\n", " ");
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let parts = lines.map(|line| line.split_once(' ').expect("an argument"));
    parts.map(|(name, rest)| (name.to_owned(), rest.split_whitespace().collect::<Vec<_>>().join(" "))).collect()
}

#[test]
fn the_image_is_pinned_small_and_without_root() {
    let all = instructions();
    let of = |name: &str| all.iter().filter(|(it, _)| it == name).map(|(_, rest)| rest.as_str()).collect::<Vec<_>>();
    let bases = of("FROM");
    assert!(bases.iter().all(|base| has_version(base) && base.contains('.')), "{bases:?}");
    assert_eq!(of("ADD"), [""; 0], "COPY shows what it takes");
    assert!(!read("Dockerfile").contains("latest"));
    assert!(of("RUN").iter().all(|run| !run.contains("apk add") || run.contains("apk add --no-cache")));
    let last = all.iter().rposition(|(name, _)| name == "FROM").unwrap();
    let image = &all[last..];
    let one = |name: &str| {
        let found: Vec<&str> = image.iter().filter(|(it, _)| it == name).map(|(_, rest)| rest.as_str()).collect();
        assert_eq!(found.len(), 1, "{name}: {found:?}");
        found[0].to_owned()
    };
    let user: u32 = one("USER").parse().expect("a number: orchestrators check it");
    assert!(user > 0);
    assert!(one("HEALTHCHECK").contains("http://127.0.0.1:9000/health "));
    assert!(one("ENTRYPOINT").starts_with('[') && one("CMD").starts_with('['), "signals reach the process");
    let variables = one("ENV");
    let variables = variables.split(' ').map(|it| it.split_once('=').unwrap());
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    check_environment("Dockerfile", &variables);
    let ports = ["LISTEN", "ADMIN_LISTEN"].map(|key| variables[&format!("FEEDLINE__SERVER__{key}")].clone());
    let ports: Vec<&str> = ports.iter().map(|address| address.rsplit_once(':').unwrap().1).collect();
    assert_eq!(one("EXPOSE").split(' ').collect::<Vec<_>>(), ports);
}

/// A value of compose.yml with the defaults of its variables.
fn with_defaults(value: &str) -> String {
    match value.split_once("${") {
        None => value.to_owned(),
        Some((before, rest)) => {
            let (variable, after) = rest.split_once('}').expect("the end of a variable");
            let (_, default) = variable.split_once(":-").expect("a default");
            format!("{before}{default}{}", with_defaults(after))
        }
    }
}

#[test]
fn the_composition_has_two_healthy_nodes_their_stores_and_a_proxy() {
    let Some(compose) = yaml("compose.yml") else { return };
    let services = compose["services"].as_object().unwrap();
    let volumes = compose["volumes"].as_object().unwrap();
    let waits_for = |service: &Value| -> BTreeSet<String> {
        let needed = service["depends_on"].as_object().into_iter().flatten();
        needed.filter(|(_, how)| how["condition"] == "service_healthy").map(|(name, _)| name.clone()).collect()
    };
    let nodes: Vec<&String> = services.keys().filter(|name| services[*name]["image"] == "feedline").collect();
    assert_eq!(nodes, ["feedline-1", "feedline-2"]);
    let mut needed = BTreeSet::new();
    for node in nodes.iter().map(|name| &services[*name]) {
        assert_eq!(node["build"], ".", "the check of its health is that of the image");
        needed.append(&mut waits_for(node));
        let variables = node["environment"].as_object().unwrap().iter();
        let variables = variables.map(|(name, value)| (name.clone(), with_defaults(value.as_str().unwrap())));
        check_environment("compose.yml", &variables.collect());
    }
    assert_eq!(needed, BTreeSet::from(["postgres".to_owned(), "redis".to_owned()]));
    let (_, proxy) = services.iter().find(|(_, it)| it["image"].as_str().unwrap().starts_with("nginx:")).unwrap();
    assert_eq!(waits_for(proxy), nodes.iter().map(|name| (*name).clone()).collect());
    for (name, service) in services.iter().filter(|(name, _)| !nodes.contains(name)) {
        assert!(has_version(service["image"].as_str().unwrap()), "{name}");
        assert!(service["healthcheck"]["test"].is_string(), "{name}");
    }
    for volume in services.values().filter_map(|service| service["volumes"].as_array()).flatten() {
        let source = volume.as_str().unwrap().split(':').next().unwrap();
        let exists = if source.starts_with('.') { root().join(source).exists() } else { volumes.contains_key(source) };
        assert!(exists, "{source}");
    }
}

#[test]
fn the_unit_is_valid_hardened_and_may_bind_low_ports() {
    let unit = read("ops/feedline.service");
    let values =
        |key: &str| unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).collect::<Vec<_>>();
    for (key, value) in [
        ("Type", "notify"),
        ("ExecReload", "/bin/kill -HUP $MAINPID"),
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("CapabilityBoundingSet", "CAP_NET_BIND_SERVICE"),
        ("AmbientCapabilities", "CAP_NET_BIND_SERVICE"),
    ] {
        assert_eq!(values(key), [value], "{key}");
    }
    assert!(values("WatchdogSec").len() == 1 && values("LimitNOFILE").len() == 1);
    let variables = values("Environment").into_iter().map(|it| it.split_once('=').unwrap());
    check_environment("feedline.service", &variables.map(|(name, value)| (name.into(), value.into())).collect());
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("feedline.service");
    fs::write(&copy, unit.replace("/usr/bin/feedline", env!("CARGO_BIN_EXE_feedline"))).unwrap();
    match Command::new("systemd-analyze").arg("verify").arg(&copy).output() {
        Ok(verified) => {
            let said = String::from_utf8_lossy(&verified.stderr).into_owned();
            assert!(verified.status.success() && !said.contains("feedline"), "{said}");
        }
        Err(error) => println!("skipped: systemd-analyze was not run: {error}"),
    }
}

#[test]
fn the_debian_package_has_files_that_exist() {
    let manifest: toml::Value = toml::from_str(&read("Cargo.toml")).unwrap();
    let deb = &manifest["package"]["metadata"]["deb"];
    let text = |value: &toml::Value| value.as_str().unwrap().to_owned();
    let assets: Vec<[String; 3]> =
        deb["assets"].as_array().unwrap().iter().map(|asset| [0, 1, 2].map(|n| text(&asset[n]))).collect();
    let targets: Vec<String> = assets.iter().map(|[_, target, _]| format!("/{target}")).collect();
    for [source, _, mode] in &assets {
        match source.strip_prefix("target/release/") {
            Some(built) => assert_eq!((built, mode.as_str()), ("feedline", "755")),
            None => assert!(root().join(source).is_file() && mode == "644", "{source}"),
        }
    }
    for file in deb["conf-files"].as_array().unwrap().iter().map(text) {
        assert!(targets.contains(&file), "{file} is no asset");
        assert!(read("ops/feedline.service").contains(&format!("--config {file} ")), "{file}");
    }
    let unit = &deb["systemd-units"];
    assert!(root().join(text(&unit["unit-scripts"])).join(text(&unit["unit-name"]) + ".service").is_file());
    // Without the mark, systemd does not know of a new unit.
    for script in ["postinst", "prerm"] {
        let path = format!("{}{script}", text(&deb["maintainer-scripts"]));
        assert!(read(&path).contains("#DEBHELPER#"), "{path}");
    }
}

/// The values that the templates of the chart use, such as `image.tag`.
fn used_values() -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    for entry in fs::read_dir(root().join("ops/helm/feedline/templates")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        for rest in text.split(".Values.").skip(1) {
            used.insert(rest.split(|c: char| !(c.is_ascii_alphanumeric() || c == '.')).next().unwrap().to_owned());
        }
    }
    used
}

#[test]
fn the_chart_uses_values_that_exist_and_keys_that_the_server_knows() {
    let Some(values) = yaml("ops/helm/feedline/values.yaml") else { return };
    let used = used_values();
    assert!(used.len() > 10, "{used:?}");
    for path in &used {
        let found = path.split('.').try_fold(&values, |value, name| value.get(name));
        assert!(found.is_some(), "{path} is not in values.yaml");
    }
    for name in values.as_object().unwrap().keys() {
        assert!(used.iter().any(|path| path.split('.').next() == Some(name)), "no template uses {name}");
    }
    let mut variables: BTreeMap<String, String> = values["config"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()))
        .collect();
    for (key, value) in [("DRAIN_DELAY", "drainDelay"), ("DRAIN", "drain")] {
        variables.insert(format!("FEEDLINE__SERVER__{key}"), values[value].as_str().unwrap().to_owned());
    }
    check_environment("values.yaml", &variables);
    let chart = yaml("ops/helm/feedline/Chart.yaml").unwrap();
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"), "it is the tag of the image");
}
