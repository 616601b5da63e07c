// Notifications of the application's own, on the page.

import assert from "node:assert/strict";
import { test } from "node:test";

import { go, LIVE_MS, stage } from "./people.mjs";

const scene = stage({ people: { ann: "Ann Arbor", bo: "Bo Diddley" } });

async function send(more) {
  const draft = { to: ["ann"], kind: "app.build", title: "The build failed", body: "2 are red" };
  const body = JSON.stringify({ ...draft, ...more });
  const headers = { "x-api-key": scene.server.apiKey, "content-type": "application/json" };
  const { status } = await fetch(`${scene.server.origin}/api/v1/notifications`, { method: "POST", headers, body });
  assert.equal(status, 202);
}

const rows = (browser) =>
  browser.run(() =>
    [...document.querySelectorAll("[data-testid=notification]")].map((row) => ({
      words: row.querySelector(".sum > span").textContent.trim(),
      excerpt: row.querySelector(".excerpt").textContent,
      href: row.getAttribute("href"),
      isNew: "unread" in row.dataset,
    })),
  );

test("what the application says is a row with its title, text and place, live", async () => {
  const { ann } = scene;
  await go(ann, "/notifications");
  await send({ key: "main", url: "https://builds.example/7" });
  const [row] = await ann.until(
    () => rows(ann),
    (found) => found.length === 1,
    "a row",
    4 * LIVE_MS,
  );
  assert.equal(row.words, "The build failed");
  assert.equal(row.excerpt, "2 are red");
  assert.equal(row.href, "https://builds.example/7");
  await send({ key: "main", title: "The build is green", from: "bo", body: "" });
  const [now] = await ann.until(
    () => rows(ann),
    ([first]) => first.words.includes("green"),
    "the row again",
    4 * LIVE_MS,
  );
  assert.equal(now.words, "Bo Diddley The build is green");
  assert.equal(now.href, "/notifications");
  assert.equal((await rows(ann)).length, 1, "one row for the key");
  await ann.click("notification");
  await ann.until(
    () => rows(ann),
    ([first]) => !first.isNew,
    "it is read",
    4 * LIVE_MS,
  );
});
