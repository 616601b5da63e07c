// Reports of posts, comments and people: the dialog, its limits, and what reaches the moderators.

import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { en } from "../../web/i18n/en.js";
import { moreEn } from "../../web/i18n/more-en.js";
import { moreZh } from "../../web/i18n/more-zh.js";
import { inspect } from "./inspect.mjs";
import { go, setOffline, stage } from "./people.mjs";

const MAX_TEXT = 1_000;
const ESCAPE = "\uE00C";

let post;
let comment;
const scene = stage({
  people: { ann: "Ann Arbor", bo: "Bo Diddley" },
  before: async ({ server }) => {
    post = await server.postOf("bo", "Buy my miracle cure");
    comment = await server.callAs("bo", "POST", `/posts/${post.id}/comments`, { text: "Really, buy it" });
  },
});

const openReports = async () => {
  const { items } = await fetch(`${scene.server.origin}/api/v1/reports`, {
    headers: { "x-api-key": scene.server.apiKey },
  }).then((response) => response.json());
  return items;
};

const isClosed = (browser) =>
  browser.until(() => browser.run(() => document.querySelector("dialog") === null), Boolean, "the dialog is closed");

const labels = (browser) => browser.texts(".menu [role^=menuitem]");

test("a post is reported with a reason and a text", async () => {
  const { ann } = scene;
  await go(ann, `/post/${post.id}`);
  await ann.click(".thread-post [data-testid=more]");
  await ann.click("report");
  await ann.sees("report-dialog", "Report this post");
  assert.deepEqual(await ann.texts("[data-testid=report-dialog] label.tick"), [
    "Spam",
    "Abuse or harassment",
    "Illegal content",
    "Something else",
  ]);
  await ann.click("report-send");
  await ann.sees("report-error", "Choose a reason.");
  await ann.click("reason-illegal");
  await ann.type("report-text", "It is sugar.");
  await ann.click("report-send");
  await ann.sees("toast", "Reported. The moderators will look at it.");
  await isClosed(ann);
  const [report] = await openReports();
  assert.deepEqual(
    [report.reporter, report.post, report.about, report.reason, report.text],
    ["ann", post.id, "bo", "illegal", "It is sugar."],
  );
});

test("a comment and a person are reported, without a text", async () => {
  const { ann } = scene;
  await go(ann, `/post/${post.id}`);
  await ann.click("comment-more");
  await ann.click("report");
  await ann.sees("report-dialog", "Report this comment");
  await ann.click("reason-spam");
  await ann.click("report-send");
  await isClosed(ann);
  await go(ann, "/user/bo");
  await ann.click("relations");
  await ann.click("report");
  await ann.sees("report-dialog", "Report this person");
  await ann.click("reason-abuse");
  await ann.click("report-send");
  await isClosed(ann);
  const [second, first] = await openReports();
  assert.deepEqual([first.comment, first.reason, first.text], [comment.id, "spam", undefined]);
  assert.deepEqual([second.user, second.reason, second.post], ["bo", "abuse", undefined]);
});

test("nobody reports their own posts and comments, nor themselves", async () => {
  const { bo } = scene;
  await go(bo, `/post/${post.id}`);
  await bo.click(".thread-post [data-testid=more]");
  assert.ok((await labels(bo)).includes("Edit"));
  assert.ok(!(await labels(bo)).some((label) => label.startsWith("Report")));
  await bo.press(ESCAPE);
  await bo.click("comment-more");
  assert.ok((await labels(bo)).includes("Edit"));
  assert.ok(!(await labels(bo)).some((label) => label.startsWith("Report")));
  await bo.press(ESCAPE);
  await go(bo, "/user/bo");
  await bo.sees("profile-name", "Bo Diddley");
  assert.equal(await bo.run(() => document.querySelector("[data-testid=relations]")), null);
});

test("a text that is too long is refused before it is sent, and counted as the server counts", async () => {
  const { ann } = scene;
  await go(ann, `/post/${post.id}`);
  await ann.click(".thread-post [data-testid=more]");
  await ann.click("report");
  await ann.click("reason-spam");
  const fill = (text) =>
    ann.run((value) => {
      const field = document.querySelector("[data-testid=report-text]");
      field.value = value;
      field.dispatchEvent(new Event("input"));
    }, text);
  const left = () => ann.run(() => document.querySelector("dialog .left").textContent);
  await fill("😀".repeat(MAX_TEXT - 10));
  assert.equal(await left(), "10");
  await fill("x".repeat(MAX_TEXT + 1));
  assert.equal(await left(), "-1");
  await ann.click("report-send");
  await ann.sees("report-error", "A text has at most 1,000 characters.");
  assert.equal(await ann.run(() => document.activeElement.dataset.testid), "report-text");
  assert.equal(await ann.run(() => document.querySelector("[data-testid=report-text]").value.length), MAX_TEXT + 1);
  await ann.press(ESCAPE);
  await isClosed(ann);
});

test("an error is said, and the text stays to be sent again", async () => {
  const { server, ann } = scene;
  const doomed = await server.postOf("bo", "Short of time");
  await go(ann, `/post/${doomed.id}`);
  await ann.click(".thread-post [data-testid=more]");
  await ann.click("report");
  await ann.click("reason-other");
  await ann.type("report-text", "Hard to say what");
  scene.expected = ["WebSocket connection to", "ERR_INTERNET_DISCONNECTED"];
  await setOffline(ann, true);
  await ann.run(() => dispatchEvent(new Event("offline")));
  await ann.click("report-send");
  await ann.sees("report-error", "The server cannot be reached just now.", 20_000);
  assert.equal(await ann.run(() => document.querySelector("[data-testid=report-text]").value), "Hard to say what");
  await setOffline(ann, false);
  await ann.run(() => dispatchEvent(new Event("online")));
  await ann.click("report-send");
  await isClosed(ann);
  assert.equal((await openReports())[0].text, "Hard to say what");
});

test("what is gone meanwhile cannot be reported, and the dialog says so", async () => {
  const { server, ann } = scene;
  const gone = await server.postOf("bo", "Soon gone");
  await go(ann, `/post/${gone.id}`);
  await ann.click(".thread-post [data-testid=more]");
  await ann.click("report");
  await ann.click("reason-spam");
  await server.callAs("bo", "DELETE", `/posts/${gone.id}`);
  await ann.click("report-send");
  await ann.sees("report-error", "This does not exist, or you can no longer see it.");
  await ann.press(ESCAPE);
});

test("the dialog fits, has no findings, and speaks Chinese", async () => {
  const { ann } = scene;
  const open = async () => {
    await go(ann, "/user/bo");
    await ann.click("relations");
    await ann.click("report");
    await ann.sees("report-dialog", "");
  };
  await open();
  await inspect(ann, "report");
  await ann.press(ESCAPE);
  await go(ann, "/settings");
  await ann.click("choose-zh");
  await ann.sees("nav-home", "首页");
  await open();
  await ann.sees("report-dialog", "举报这个用户");
  await ann.shot("report-zh");
  await ann.press(ESCAPE);
  await go(ann, "/settings");
  await ann.click("choose-en");
});

test("the texts of the second script are there in both languages, with the same values", async () => {
  assert.deepEqual(Object.keys(moreZh), Object.keys(moreEn));
  const values = (entry) => {
    const text = entry.other ?? entry;
    return [...new Set([...text.matchAll(/\{(\w+)\}/g)].map(([, name]) => name))].sort();
  };
  for (const [key, text] of Object.entries(moreEn)) assert.deepEqual(values(moreZh[key]), values(text), key);
  assert.deepEqual(Object.keys(moreEn).filter((key) => key in en), [], "a text is in one table");
  const web = fileURLToPath(new URL("../../web/", import.meta.url));
  const names = (await readdir(web, { recursive: true })).filter((name) => name.endsWith(".js"));
  const code = (await Promise.all(names.map((name) => readFile(path.join(web, name), "utf8")))).join("\n");
  const asked = [...code.matchAll(/\btm(?:Nodes)?\(\s*"([\w.-]+)"/g)].map(([, key]) => key);
  assert.deepEqual(asked.filter((key) => !(key in moreEn)), []);
});
