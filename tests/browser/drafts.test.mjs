// What was begun to write outlives a reload of the page, and is gone once it was sent.

import assert from "node:assert/strict";
import { test } from "node:test";

import { go, idOf, live, LIVE_MS, signIn, stage } from "./people.mjs";

const scene = stage({ people: { ann: "Ann Arbor", bo: "Bo Diddley" } });

const reload = async (browser) => {
  await browser.reload();
  await live(browser);
};
const value = (browser, name) =>
  browser.run((id) => document.querySelector(`[data-testid=${id}]`)?.value ?? null, name);
const holds = (browser, name, text) => browser.until(() => value(browser, name), (now) => now === text, name);

test("a post that was begun is there after a reload, with its picture and its audience, until it is sent", async () => {
  const { server, ann } = scene;
  await ann.type("post-text", "half a thought");
  await ann.click("media-toggle");
  await ann.type("media-url", "/icon.svg");
  await ann.click("media-add");
  await ann.sees("media-preview", "");
  await ann.click("audience");
  await ann.click("audience-followers");
  await reload(ann);
  await holds(ann, "post-text", "half a thought");
  await ann.sees("media-preview", "");
  await ann.sees("audience", "Followers");
  await ann.click("post-submit");
  await ann.sees("post-body", "half a thought", LIVE_MS);
  await reload(ann);
  await ann.sees("post-body", "half a thought", LIVE_MS);
  assert.equal(await value(ann, "post-text"), "");
  const sent = await server.callAs("ann", "GET", `/posts/${await idOf(ann, "half a thought")}`);
  assert.deepEqual([sent.visibility, sent.media.length], ["followers", 1]);
});

test("the dialog, Home, and each post and comment have drafts of their own", async () => {
  const { server, ann } = scene;
  const { id } = await server.postOf("bo", "Say something");
  const commentOn = (post, text) => server.callAs("bo", "POST", `/posts/${post}/comments`, { text });
  const comment = await commentOn(id, "I begin");
  await commentOn(id, "I go on");
  const other = await server.postOf("bo", "Say something else");
  await commentOn(other.id, "Elsewhere");
  await ann.type("post-text", "on Home");
  await go(ann, "/topics");
  await ann.sees("#title", "Topics");
  await ann.click("compose-open");
  await ann.type("[data-testid=compose-dialog] [data-testid=post-text]", "in the dialog");
  await ann.run(() => document.querySelector("dialog").close());
  await go(ann, `/post/${id}`);
  await ann.type("comment-text", "half a comment");
  await ann.click("[data-testid=comment] [data-testid=reply]");
  await ann.type("reply-text", "half a reply");
  await go(ann, `/post/${other.id}`);
  await ann.sees("comment-text-shown", "Elsewhere");
  assert.deepEqual([await value(ann, "comment-text"), await value(ann, "reply-text")], ["", null], "another post");
  await go(ann, `/post/${id}`);
  await reload(ann);
  await holds(ann, "comment-text", "half a comment");
  await holds(ann, "reply-text", "half a reply");
  assert.equal((await ann.texts("reply-text")).length, 1, "the other comment has no form of a reply");
  await ann.click("reply-submit");
  await ann.sees("comment-text-shown", "half a reply", LIVE_MS);
  await ann.click("comment-submit");
  await ann.sees("comment-text-shown", "half a comment", LIVE_MS);
  await reload(ann);
  await ann.sees("comment-text-shown", "half a comment", LIVE_MS);
  assert.deepEqual([await value(ann, "comment-text"), await value(ann, "reply-text")], ["", null]);
  const { items } = await server.callAs("ann", "GET", `/posts/${id}/comments?reply_to=${comment.id}`);
  assert.deepEqual(items.map(({ text }) => text), ["half a reply"]);
  await go(ann, "/topics");
  await ann.sees("#title", "Topics");
  await ann.click("compose-open");
  const field = "[data-testid=compose-dialog] [data-testid=post-text]";
  assert.equal(await ann.run((name) => document.querySelector(name).value, field), "in the dialog");
  await ann.run(() => document.querySelector("dialog").close());
  await go(ann, "/");
  await holds(ann, "post-text", "on Home");
});

test("a cancelled reply is forgotten, and so are the drafts of somebody who signs out", async () => {
  const { server, ann } = scene;
  const { id } = await server.postOf("bo", "Or say nothing");
  await server.callAs("bo", "POST", `/posts/${id}/comments`, { text: "Silence" });
  await go(ann, `/post/${id}`);
  await ann.click("[data-testid=comment] [data-testid=reply]");
  await ann.type("reply-text", "never mind");
  await ann.click("[data-testid=comment] form .button:not(.primary)");
  await reload(ann);
  await ann.sees("comment-text-shown", "Silence");
  await holds(ann, "comment-text", "");
  assert.equal(await value(ann, "reply-text"), null);
  await go(ann, "/");
  await holds(ann, "post-text", "on Home");
  await ann.click("me");
  await ann.click("sign-out");
  await signIn(ann, "ann");
  await live(ann);
  await holds(ann, "post-text", "");
});

test("a draft belongs to a user: another one in the same tab does not see it", async () => {
  const { ann } = scene;
  await go(ann, "/");
  await ann.type("post-text", "mine alone");
  for (const [user, text] of [["bo", ""], ["ann", "mine alone"]]) {
    await ann.click("me");
    await ann.click("account-other");
    await signIn(ann, user);
    await live(ann);
    await holds(ann, "post-text", text);
  }
});
