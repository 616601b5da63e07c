// The files of the page: their imports, the comments that the server strips, and complete translations.

import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { test } from "node:test";

import { en } from "../../web/i18n/en.js";
import { zh } from "../../web/i18n/zh.js";

const WEB = fileURLToPath(new URL("../../web/", import.meta.url));
/** Translation keys that the code composes from parts. */
const COMPOSED = [
  "error.",
  "followers.",
  "following.",
  "line.",
  "audience.",
  "reverted.",
  "curtain.",
  "media.",
  "lightbox.",
  "notified.",
  "figure.",
  "un",
  "mute",
  "hid",
  "block.short",
  "profile.",
  "settings.",
  "order.",
  "friends.",
  "shared.",
  "theme.",
  "push.state.",
  "push.problem.",
  "push.kind.",
  "quote.",
];

async function files(...endings) {
  const all = await readdir(WEB, { recursive: true });
  const wanted = all.filter((name) => endings.some((ending) => name.endsWith(ending) && !name.endsWith(".d.ts")));
  return Promise.all(wanted.map(async (name) => ({ name, text: await readFile(path.join(WEB, name), "utf8") })));
}

test("no text of the page looks like a comment, or spans lines", async () => {
  // The server removes comments and indentation line by line: see src/http/page/files.rs.
  for (const { name, text } of await files(".js")) {
    const code = text.replace(/^\s*\/\/.*\n/gm, "").replace(/\/\*\*[^]*?\*\//g, "");
    assert.doesNotMatch(code, /\/\*/, name);
    for (const line of code.split("\n")) assert.equal((line.match(/`/g) ?? []).length % 2, 0, `${name}: ${line}`);
  }
});

test("both languages have the same words with the same values", () => {
  assert.deepEqual(Object.keys(zh), Object.keys(en));
  const names = (text) => [...new Set([...text.matchAll(/\{(\w+)\}/g)].map(([, name]) => name))].sort();
  for (const [key, text] of Object.entries(en)) {
    const wanted = names(typeof text === "string" ? text : text.other);
    const given = names(typeof zh[key] === "string" ? zh[key] : zh[key].other);
    assert.deepEqual(
      given.filter((name) => !wanted.includes(name)),
      [],
      key,
    );
  }
});

test("every word that the code asks for is there, and every word is asked for", async () => {
  const code = (await files(".js"))
    .filter(({ name }) => !name.startsWith("i18n"))
    .map(({ text }) => text)
    .join("\n");
  const asked = [...code.matchAll(/\bt(?:Nodes)?\(\s*"([\w.-]+)"/g)].map(([, key]) => key);
  assert.deepEqual(
    asked.filter((key) => !(key in en) && !key.endsWith(".")),
    [],
  );
  const quoted = new Set([...code.matchAll(/"([\w.-]+)"/g)].map(([, key]) => key));
  const unused = Object.keys(en).filter((key) => !quoted.has(key) && !COMPOSED.some((start) => key.startsWith(start)));
  assert.deepEqual(unused, []);
});

test("no text becomes markup, and no style or script is inline", async () => {
  for (const { name, text } of await files(".js", ".html")) {
    assert.doesNotMatch(text, /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function/, name);
    assert.doesNotMatch(text, /<style|<script(?! type="module" src=)|style="|\son\w+="/, name);
  }
});

test("the page needs no secure context", async () => {
  for (const { name, text } of await files(".js")) {
    const code = text.replace(/^\s*\/?[/*].*\n/gm, "");
    assert.doesNotMatch(code, /randomUUID|crypto\.subtle/, name);
  }
});

test("the server can join all modules of the page into one", async () => {
  // It joins what has these forms, without circles: see src/http/page/join.rs. Otherwise the script is one file each.
  const open = new Set();
  const found = new Set();
  const visit = async (name) => {
    assert.ok(!open.has(name), `${[...open, name].join(" imports ")}`);
    if (found.has(name)) return;
    open.add(name);
    found.add(name);
    const text = await readFile(path.join(WEB, name), "utf8");
    const imports = [...text.matchAll(/^import [^;]*;$/gm)];
    for (const [statement] of imports) {
      const [, from] = statement.match(/^import \{[^{}]*\} from "(\.\.?\/[^"]+)";$/) ?? [];
      assert.ok(from, `${name}: ${statement}`);
      await visit(path.posix.join(path.posix.dirname(name), from));
    }
    for (const [line] of text.matchAll(/^export .*$/gm)) {
      assert.match(line, /^export (\{[\w, ]+\};|const \w+ = .*|(async )?function \w+\(.*|class \w+.*)$/, name);
    }
    open.delete(name);
  };
  await visit("main.js");
  await visit("views/more.js");
  // The client module is also a package.
  await visit("feedline/index.js");
  const apart = ["i18n/en.js", "i18n/zh.js", "service-worker.js", "feedline/react.js"];
  const unused = (await files(".js")).filter(({ name }) => !found.has(name) && !apart.includes(name));
  assert.deepEqual(unused.map(({ name }) => name), [], "every module is used");
});
