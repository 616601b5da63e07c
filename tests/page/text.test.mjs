// Mentions, topics and links: the table of cases that the server's tests run, too.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { isBlank, mentionBegun, tokens, withoutDirections, written } from "../../web/text.js";

const CASES = JSON.parse(readFileSync(new URL("../text-cases.json", import.meta.url), "utf8"));

function found(text) {
  const kinds = { mention: [], topic: [], link: [] };
  for (const { kind, value } of tokens(text)) if (!kinds[kind].includes(value)) kinds[kind].push(value);
  // A post has ten topics at most.
  return { mentions: kinds.mention, topics: kinds.topic.slice(0, 10), links: kinds.link };
}

test("the table of cases holds", () => {
  const wrong = CASES.flatMap(({ text, ...expected }) => {
    const is = found(text);
    return JSON.stringify(is) === JSON.stringify(expected) ? [] : [{ text, is, expected }];
  });
  assert.deepEqual(wrong, []);
});

test("tokens stand in order, and what they say is in the text", () => {
  for (const { text } of CASES) {
    let last = 0;
    for (const { kind, value, start, end } of tokens(text)) {
      assert.ok(start >= last && end > start && end <= text.length, text);
      if (kind !== "topic") assert.equal(text.slice(start, end).replace(/^[@＠]/, ""), value);
      last = end;
    }
  }
});

test("long texts take one pass", () => {
  const links = ["a://", "a:", "#www.a!", "a.b/", "x@y.z "];
  const parts = ["@", "#", "/", "a@", "#a@", "\u0301", "\u0301@", "谢@", "#\u200d", ...links];
  for (const part of parts) {
    const text = part.repeat((64 << 10) / part.length);
    const start = performance.now();
    tokens(text);
    const took = performance.now() - start;
    assert.ok(took < 5000, `${took} ms for ${part}`);
  }
});

test("what nobody sees is blank", () => {
  const hidden = ["\u200b\u200d\u2060", "\u202e", "\u3164\uffa0\u115f", "\u2800", "\u{e0067}", "\u00ad\0"];
  for (const text of ["", " \n\u3000", ...hidden]) assert.ok(isBlank(text), JSON.stringify(text));
  const visible = [".", "❤\ufe0f", "می\u200cخواهم", "\u200b.", "👩\u200d💻"];
  for (const text of visible) assert.equal(written(` ${text}\n`), text);
});

test("a mention that is being written is found where one can stand", () => {
  const begun = { "@b": "b", "hi @bo": "bo", "谢谢@bo": "bo", "＠bo": "bo", "a@b": "", "é@b": "", "@bo ": "", "@": "" };
  for (const [text, id] of Object.entries(begun)) assert.equal(mentionBegun(text), id, text);
});

test("directions are taken out, joiners and marks stay", () => {
  assert.equal(withoutDirections("\u202eecilA\u202c\u2066\u2069 👩\u200d💻\u200f"), "ecilA 👩\u200d💻\u200f");
});
