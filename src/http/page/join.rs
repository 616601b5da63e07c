//! Joins what belongs together into one file: it arrives at once, and is much smaller compressed than its parts.
//!
//! The script is joined from the modules that the entry imports, as a browser would run them: each becomes a function
//! that is called once, after those that it imports. Modules keep their own scopes. What is imported with `import()`
//! stays a file of its own. One such file is joined, too: the script that is loaded later, which imports from the first
//! one the modules that both need.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

use sha2::{Digest as _, Sha256};

/// The text of a file by its path, if there is one.
type Read<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A style sheet with those that it imports.
pub(super) fn style_sheets(path: &str, read: Read<'_>) -> Option<String> {
    let text = read(path)?;
    let imported = |line: &str| read(&resolve(path, line.strip_prefix("@import \"")?.strip_suffix("\";")?)?);
    let lines = text.lines().map(|line| imported(line).unwrap_or_else(|| line.to_owned()));
    Some(lines.collect::<Vec<_>>().join("\n"))
}

/// Two scripts: `first`, and `later` without the modules of `first`.
pub(super) struct PageScripts {
    pub(super) first: String,
    pub(super) later: String,
}

/// Two modules, each with all that it imports. `address` makes the address of the first one, as the later one imports
/// it, from its text. None if one of them has a form that cannot be joined, or if they import each other in a circle:
/// then the browser loads them one by one.
pub(super) fn modules(
    first: &str,
    later: &str,
    read: Read<'_>,
    address: impl FnOnce(&str) -> String,
) -> Option<PageScripts> {
    let mut joiner = Joiner { read, places: HashMap::new(), used: BTreeSet::new(), script: String::new() };
    let entry = joiner.prepare(first)?;
    let number_of_first = joiner.places.len();
    let mut script = std::mem::take(&mut joiner.script) + &entry.imports + &entry.body;
    joiner.used.clear();
    let Module { imports, body, exports } = joiner.prepare(later)?;
    let shared: Vec<String> = joiner.used.range(..number_of_first).map(|place| format!("${place}")).collect();
    let shared = shared.join(", ");
    // Modules are numbered anew in each build: scripts of two builds do not fit together, and say so.
    let digest = Sha256::digest(&script);
    let build = digest.iter().take(4).fold("build_".to_owned(), |name, byte| name + &format!("{byte:02x}"));
    let shared = format!("{shared}, {build}");
    writeln!(script, "const {build} = 1;\nexport {{ {shared} }};").ok()?;
    let exports = exports.join(", ");
    let own = joiner.script;
    let first = address(&script);
    let later = format!("import {{ {shared} }} from \"{first}\";\n{own}{imports}{body}export {{ {exports} }};\n");
    Some(PageScripts { first: script, later })
}

struct Joiner<'a> {
    read: Read<'a>,
    /// By path: the number of a module that was joined; none while those that it imports are.
    places: HashMap<String, Option<usize>>,
    /// The numbers of the modules that were imported.
    used: BTreeSet<usize>,
    script: String,
}

/// A module without `import` and `export`.
struct Module {
    /// Declarations of what it imports.
    imports: String,
    body: String,
    /// The names that it exports.
    exports: Vec<String>,
}

impl Joiner<'_> {
    /// The number of a module, which is joined the first time.
    fn join(&mut self, path: &str) -> Option<usize> {
        if let Some(place) = *self.places.get(path).unwrap_or(&None) {
            self.used.insert(place);
            return Some(place);
        }
        if self.places.contains_key(path) {
            return None;
        }
        self.places.insert(path.to_owned(), None);
        let Module { imports, body, exports } = self.prepare(path)?;
        let place = self.places.values().flatten().count();
        let exports = exports.join(", ");
        write!(self.script, "const ${place} = (() => {{\n{imports}{body}return {{ {exports} }};\n}})();\n").ok()?;
        self.places.insert(path.to_owned(), Some(place));
        self.used.insert(place);
        Some(place)
    }

    /// Takes a module apart, after those that it imports were joined.
    fn prepare(&mut self, path: &str) -> Option<Module> {
        let text = (self.read)(path)?;
        let mut module = Module { imports: String::new(), body: String::new(), exports: Vec::new() };
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if line.starts_with("import ") {
                let mut statement = line.to_owned();
                while !statement.ends_with(';') {
                    statement.push_str(lines.next()?);
                }
                let (names, from) = statement.strip_prefix("import {")?.strip_suffix("\";")?.split_once("} from \"")?;
                let place = self.join(&resolve(path, from)?)?;
                writeln!(module.imports, "const {{{}}} = ${place};", names.replace(" as ", ": ")).ok()?;
            } else if let Some(list) = line.strip_prefix("export {") {
                let names = list.strip_suffix("};")?.split(',');
                module.exports.extend(names.map(|name| name.trim().to_owned()));
            } else if let Some(declaration) = line.strip_prefix("export ") {
                module.exports.push(declared(declaration)?.to_owned());
                writeln!(module.body, "{declaration}").ok()?;
            } else {
                writeln!(module.body, "{line}").ok()?;
            }
        }
        Some(module)
    }
}

/// The name that a declaration declares; none if it is not one of a constant, function or class.
fn declared(declaration: &str) -> Option<&str> {
    let declaration = declaration.strip_prefix("async ").unwrap_or(declaration);
    let named = ["const ", "function ", "class "].iter().find_map(|keyword| declaration.strip_prefix(keyword))?;
    let name = named.split(|character: char| !character.is_alphanumeric() && character != '_').next()?;
    Some(name).filter(|name| !name.is_empty())
}

/// The path of what a file imports: `./` and `../` are relative to its folder. None for any other address.
fn resolve(path: &str, from: &str) -> Option<String> {
    let mut folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut rest = from.strip_prefix("./").or_else(|| from.starts_with("../").then_some(from))?;
    while let Some(above) = rest.strip_prefix("../") {
        folder = folder.rsplit_once('/').map_or("", |(above, _)| above);
        rest = above;
    }
    Some(if folder.is_empty() { rest.to_owned() } else { format!("{folder}/{rest}") })
}

#[cfg(test)]
mod tests {
    use super::{PageScripts, modules, style_sheets};

    const FILES: [(&str, &str); 8] = [
        ("main.js", "import {\n  one,\n  two as second,\n} from \"./part/a.js\";\n\nawait one(second);\n"),
        (
            "part/later.js",
            "import { B } from \"../b.js\";\nimport { own } from \"../own.js\";\nexport const later = own(B);\n",
        ),
        ("own.js", "export function own() {}\n"),
        (
            "part/a.js",
            "import { B } from \"../b.js\";\nexport { B };\nexport const one = B;\nexport async function two() {}\n",
        ),
        ("b.js", "export class B {}\n"),
        ("circle.js", "import { c } from \"./circle.js\";\nexport const c = 1;\n"),
        ("default.js", "export default 1;\n"),
        ("outside.js", "import { x } from \"https://example.org/x.js\";\n"),
    ];

    fn read(path: &str) -> Option<String> {
        let found = FILES.iter().find(|(name, _)| *name == path);
        found.map(|(_, text)| (*text).to_owned())
    }

    #[test]
    fn modules_are_functions_in_the_order_in_which_they_run() {
        let PageScripts { first, later } =
            modules("main.js", "part/later.js", &read, |_| "../main.js".to_owned()).expect("two scripts");
        let wanted = "const $0 = (() => {\nclass B {}\nreturn { B };\n})();\n\
            const $1 = (() => {\nconst { B } = $0;\nconst one = B;\nasync function two() {}\nreturn { B, one, two };\n\
            })();\n\
            const {  one,  two: second,} = $1;\n\nawait one(second);\nconst BUILD = 1;\nexport { $0, BUILD };\n";
        let build = later.get(13..27).expect("the name of the build");
        assert_eq!(first.replace(build, "BUILD"), wanted);
        let wanted = "import { $0, BUILD } from \"../main.js\";\n\
            const $2 = (() => {\nfunction own() {}\nreturn { own };\n})();\n\
            const { B } = $0;\nconst { own } = $2;\nconst later = own(B);\nexport { later };\n";
        assert_eq!(later.replace(build, "BUILD"), wanted);
    }

    #[test]
    fn what_cannot_be_joined_is_left_to_the_browser() {
        for entry in ["circle.js", "default.js", "outside.js", "missing.js"] {
            assert!(modules(entry, "part/later.js", &read, str::to_owned).is_none(), "{entry}");
            assert!(modules("main.js", entry, &read, str::to_owned).is_none(), "{entry}");
        }
    }

    #[test]
    fn a_style_sheet_contains_what_it_imports() {
        let read = |path: &str| match path {
            "style/index.css" => Some("@import \"./a.css\";\nb {}".to_owned()),
            "style/a.css" => Some("a {}".to_owned()),
            _ => None,
        };
        assert_eq!(style_sheets("style/index.css", &read).as_deref(), Some("a {}\nb {}"));
    }
}
