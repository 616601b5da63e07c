// What moderators did, as those see it whom it concerns: removed posts and comments, suspended and blocked accounts.

import assert from "node:assert/strict";
import { test } from "node:test";

import { findings, inspect } from "./inspect.mjs";
import { createAccount, go, live, quiet, shows, signIn, stage, state } from "./people.mjs";

const ESCAPE = "\uE00C";

let post;
let comment;
const scene = stage({
  people: { ann: "Ann Arbor", bo: "Bo Diddley" },
  before: async ({ server }) => {
    post = await server.postOf("bo", "A post of Bo");
    await server.postOf("ann", "A post of Ann");
    await as("ann", "PUT", "/users/bo/follow");
    comment = await as("bo", "POST", `/posts/${post.id}/comments`, { text: "A comment of Bo" });
  },
});

const as = (user, method, path, body) => scene.server.callAs(user, method, path, body);

async function moderate(method, path, body) {
  const headers = { "x-api-key": scene.server.apiKey, "content-type": "application/json" };
  const request = { method, headers, ...(body && { body: JSON.stringify(body) }) };
  const { status } = await fetch(`${scene.server.origin}/api/v1${path}`, request);
  assert.equal(status, 200, `${method} ${path}`);
}

const isThere = (browser, query) =>
  browser.run((one) => document.querySelector(one)?.checkVisibility() ?? false, query);
const labels = (browser) => browser.texts(".menu [role^=menuitem]");

test("the author of a removed post sees it with the reason, live and on every page, and cannot edit it", async () => {
  const { ann, bo } = scene;
  await go(ann, "/");
  await shows(ann, ["A post of Ann", "A post of Bo"]);
  await go(bo, `/post/${post.id}`);
  await bo.sees(".thread-post", "A post of Bo");
  await moderate("PUT", `/posts/${post.id}/removal`, { reason: "Sells sugar" });
  await bo.sees(".thread-post .notice", "Removed by the moderators. Only you see it. Sells sugar");
  await shows(ann, ["A post of Ann"]);
  assert.deepEqual(await bo.texts(".thread-post .tag"), [], "its audience is that of before");
  await bo.click(".thread-post [data-testid=more]");
  assert.ok(!(await labels(bo)).includes("Edit"));
  assert.ok((await labels(bo)).includes("Delete"));
  await bo.press(ESCAPE);
  for (const path of ["/user/bo", "/"]) {
    await go(bo, path);
    await bo.sees("[data-testid=post] .notice", "Removed by the moderators.");
  }
  await inspect(bo, "removed");
});

test("a restored post is as before", async () => {
  const { ann, bo } = scene;
  await go(bo, `/post/${post.id}`);
  await bo.sees(".thread-post .notice", "Removed by the moderators.");
  await moderate("DELETE", `/posts/${post.id}/removal`);
  await bo.until(() => isThere(bo, ".thread-post .notice"), (now) => !now, "no notice");
  await shows(ann, ["A post of Ann", "A post of Bo"]);
});

test("a removed comment looks deleted, but not to its author, and comes back", async () => {
  const { ann, bo } = scene;
  for (const browser of [ann, bo]) {
    await go(browser, `/post/${post.id}`);
    await browser.sees("comment-text-shown", "A comment of Bo");
  }
  await moderate("PUT", `/comments/${comment.id}/removal`, { reason: "Rude" });
  await bo.sees("comment-removed", "Removed by the moderators. Only you see it. Rude");
  await ann.sees("comment", "This comment was deleted.");
  await bo.click("comment-more");
  assert.ok(!(await labels(bo)).includes("Edit"));
  await bo.press(ESCAPE);
  await bo.reload();
  await bo.sees("comment-removed", "Rude");
  await bo.sees("comment-text-shown", "A comment of Bo");
  assert.deepEqual(await findings(bo), []);
  await bo.shot("removed-comment");
  await moderate("DELETE", `/comments/${comment.id}/removal`);
  await ann.sees("comment-text-shown", "A comment of Bo");
  await bo.until(() => isThere(bo, "[data-testid=comment-removed]"), (now) => !now, "no notice");
});

test("a comment that its author deletes is gone", async () => {
  const { bo } = scene;
  await as("bo", "POST", `/posts/${post.id}/comments`, { text: "Not for long" });
  await go(bo, "/");
  await go(bo, `/post/${post.id}`);
  await bo.sees("comment-text-shown", "Not for long");
  const last = `[data-comment="${(await as("bo", "GET", `/posts/${post.id}/comments`)).items[0].id}"]`;
  await bo.click(`${last} [data-testid=comment-more]`);
  await bo.click("delete-comment");
  await bo.click("delete-comment");
  await bo.until(() => isThere(bo, last), (now) => !now, "it is gone");
});

test("a suspended user gets a banner, reads on, and writes nothing", async () => {
  const { bo } = scene;
  scene.expected = ["WebSocket connection to"];
  await go(bo, "/");
  await shows(bo, ["A post of Bo"]);
  await moderate("PUT", "/users/bo/suspend", { level: "suspended" });
  await bo.sees("suspended", "Your account is suspended.");
  await state(bo, "ended");
  await shows(bo, ["A post of Bo"]);
  for (const [path, name, text] of [
    ["/user/bo", "profile-name", "Bo Diddley"],
    ["/user/bo/comments", "comment-written", "A comment of Bo"],
    ["/user/bo/followers", "people", "Ann Arbor"],
    [`/post/${post.id}`, "comment-text-shown", "A comment of Bo"],
    ["/notifications", "notification", "Ann Arbor"],
    ["/favourites", "empty", "No favourites yet"],
    ["/explore", "post-body", "A post of Ann"],
    ["/settings/push", "push-state", "does not push"],
  ]) {
    await go(bo, path);
    await bo.sees(name, text);
    await bo.sees("suspended", "Your account is suspended.");
  }
  await go(bo, `/post/${post.id}`);
  await bo.type("comment-text", "One more thing");
  await bo.click("comment-submit");
  await bo.sees(".reply .error", "Your account is suspended: you cannot do this now.");
  assert.equal(await bo.run(() => document.querySelector("[data-testid=comment-text]").value), "One more thing");
  await bo.click(".thread-post [data-testid=like]");
  await bo.sees("reverted", "Your like could not be saved");
  await go(bo, "/");
  await bo.type("post-text", "From behind bars");
  await bo.click("post-submit");
  await bo.sees("[data-testid=post] .notice", "This was not posted: Your account is suspended");
  await bo.click("put-back");
  const draft = () => bo.run(() => document.querySelector("[data-testid=post-text]").value);
  await bo.until(draft, (now) => now === "From behind bars", "the text is back");
});

test("no connection is asked for again, and the banner fits", async () => {
  const { bo } = scene;
  scene.expected = ["WebSocket connection to"];
  const sockets = () => bo.run(() => window.sockets);
  await bo.run(() => {
    const { WebSocket } = window;
    window.sockets = 0;
    window.WebSocket = class extends WebSocket {
      constructor(...given) {
        super(...given);
        window.sockets += 1;
      }
    };
    for (const name of ["online", "visibilitychange"]) dispatchEvent(new Event(name));
  });
  await inspect(bo, "suspended");
  assert.equal(await sockets(), 0);
});

test("a suspended user exports, has the banner after a reload, in Chinese too, and signs out and in", async () => {
  const { bo } = scene;
  // The server refuses to end the session.
  scene.expected = ["WebSocket connection to", "the server responded with a status of 403"];
  await bo.reload();
  await bo.sees("suspended", "Your account is suspended.");
  await go(bo, "/settings");
  await bo.click("export");
  await bo.sees("export-status", "Exported.");
  await bo.run(() => scrollTo(0, 0));
  await bo.click("choose-zh");
  await bo.sees("suspended", "你的账号已被封禁");
  await bo.run(() => scrollTo(0, 0));
  await bo.click("choose-en");
  await bo.sees("suspended", "Your account is suspended.");
  await bo.click("suspended-leave");
  await bo.sees("gate-submit", "Sign in");
  await signIn(bo, "bo");
  await bo.sees("suspended", "Your account is suspended.");
});

test("who is no longer suspended tries again and is live", async () => {
  const { ann, bo } = scene;
  await moderate("DELETE", "/users/bo/suspend");
  await bo.run(() => document.querySelectorAll("[data-testid=suspended] button")[1].click());
  await live(bo);
  assert.equal(await isThere(bo, "[data-testid=suspended]"), false);
  await go(ann, "/user/bo");
  await ann.sees("post-body", "A post of Bo");
});

test("a blocked account says so", async () => {
  const { server, driver } = scene;
  await createAccount(server, "dan", "Dan Dare");
  const dan = await driver.browser();
  try {
    await dan.open(`${server.origin}/sign-in`);
    await signIn(dan, "dan");
    await live(dan);
    await server.backend("block_user", { user: "dan" });
    await dan.sees("suspended", "This server has blocked your account.");
    await dan.click("suspended-leave");
    await dan.sees("gate-submit", "Sign in");
    await quiet(dan, ["403", "WebSocket connection to"]);
  } finally {
    await dan.close();
  }
});

test("a client that is refused for good joins no channel, and the page does not hang", async () => {
  const { server, driver } = scene;
  await createAccount(server, "eve", "Eve Online");
  const eve = await driver.browser();
  try {
    await eve.open(`${server.origin}/sign-in`);
    await signIn(eve, "eve");
    await live(eve);
    await eve.run(async () => {
      const { Feedline } = await import("/feedline/index.js");
      const { user, token } = JSON.parse(localStorage.getItem("feedline.session"));
      window.feedline = new Feedline({ url: "/connection/websocket", user, token });
      window.feedline.open();
      await window.feedline.ready();
    });
    await server.backend("block_user", { user: "eve" });
    const ended = () => eve.run(() => window.feedline.connection.state.name);
    await eve.until(ended, (now) => now === "ended", "the connection has ended");
    const joins = eve.run(() => {
      window.feedline.connection.subscribe("user:bo", {});
      return new Promise((resolve) => setTimeout(() => resolve("not hung"), 100));
    });
    assert.equal(await joins, "not hung");
  } finally {
    await eve.close();
  }
});

test("a limited user is not told, and writes on", async () => {
  const { ann, bo } = scene;
  await moderate("PUT", "/users/bo/suspend", { level: "limited" });
  await go(bo, "/");
  await bo.run(() => (document.querySelector("[data-testid=post-text]").value = ""));
  await bo.type("post-text", "To my followers");
  await bo.click("post-submit");
  await go(ann, "/");
  await ann.sees("post-body", "To my followers");
  assert.equal(await isThere(bo, "[data-testid=suspended]"), false);
  await state(bo, "live");
});
