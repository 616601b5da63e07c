// A post with its thread, live; and the effect of blocks, follows and mutes on open pages.

import assert from "node:assert/strict";
import { test } from "node:test";

import { follow, go, idOf, LIVE_MS, live, posts, shows, signIn, stage, state, write } from "./people.mjs";

const BLOCKED_MS = 1_000;
const RECONNECT_MS = 30_000;
const scene = stage({ people: { ann: "Ann Arbor", bo: "Bo Diddley" } });
let id;

/** The texts of the comments, in order. */
const comments = (browser) => browser.texts("comment-text-shown");
const commented = (browser, wanted, ms) =>
  browser.until(
    () => comments(browser),
    (now) => JSON.stringify(now) === JSON.stringify(wanted),
    `not ${wanted}`,
    ms,
  );

test("comments and replies appear live in an open thread, once", async () => {
  const { ann, bo } = scene;
  await write(bo, "What do you think? #bread");
  id = await idOf(bo, "What do you think?");
  for (const browser of [ann, bo]) {
    await go(browser, `/post/${id}`);
    await browser.sees("comment-list", "No comments yet");
  }
  await ann.type("comment-text", "I think so, @bo.");
  await ann.click("comment-submit");
  await commented(bo, ["I think so, @bo."], LIVE_MS);
  await commented(ann, ["I think so, @bo."]);
  assert.equal(
    await bo.run(() => document.querySelector("[data-testid=comment-text-shown] a").getAttribute("href")),
    "/user/bo",
  );
  await bo.click("[data-testid=comment] [data-testid=reply]");
  await bo.type("reply-text", "Good.");
  await bo.click("reply-submit");
  await commented(ann, ["I think so, @bo.", "Good."], LIVE_MS);
  await commented(bo, ["I think so, @bo.", "Good."]);
  await ann.sees("[data-testid=thread] .comments .number", "2");
  await ann.shot("thread-live");
});

test("a like of a comment is pending, and settles", async () => {
  const { bo } = scene;
  const like = () =>
    bo.run(() => {
      const { dataset, textContent } = document.querySelector("[data-testid=comment] [data-testid=like]");
      return `${dataset.state} ${textContent}`;
    });
  await bo.click("[data-testid=comment] [data-testid=like]");
  await bo.until(like, (now) => now === "settled 1", "settled");
});

test("an edit and a deleted comment show live", async () => {
  const { ann, bo } = scene;
  await bo.click("more");
  await bo.click("edit");
  await bo.run(() => document.querySelector("[data-testid=edit-text]").select());
  await bo.type("edit-text", "What do you really think? #bread");
  await bo.click("edit-submit");
  await ann.sees("post-body", "What do you really think?", LIVE_MS);
  await bo.click("[data-testid=comment] [data-testid=comment-more]");
  await bo.click("delete-comment");
  await bo.click("delete-comment");
  await ann.sees("[data-testid=thread]", "This comment was deleted.", LIVE_MS);
  await commented(ann, ["Good."]);
});

test("a restart of the server keeps what is being written, and the focus", async () => {
  const { server, ann, bo } = scene;
  await server.callAs("bo", "POST", `/posts/${id}/comments`, { text: "Before the restart." });
  await commented(ann, ["Good.", "Before the restart."], LIVE_MS);
  await ann.type("comment-text", "half a comment");
  await ann.click("[data-testid=comment] [data-testid=reply]");
  await ann.type("reply-text", "half a reply");
  scene.expected = ["WebSocket connection to", "ERR_CONNECTION_REFUSED"];
  await server.kill();
  await state(ann, "lost");
  await server.restart();
  await server.callAs("bo", "POST", `/posts/${id}/comments`, { text: "After the restart." });
  await commented(ann, ["Good.", "Before the restart.", "After the restart."], RECONNECT_MS);
  const written = (browser) =>
    browser.run(() =>
      ["comment-text", "reply-text"].map((name) => document.querySelector(`[data-testid=${name}]`).value),
    );
  assert.deepEqual(await written(ann), ["half a comment", "half a reply"]);
  assert.equal(await ann.run(() => document.activeElement.dataset.testid), "reply-text");
  await ann.press("!");
  await ann.click("reply-submit");
  await ann.sees("comment-text-shown", "half a reply!");
  await live(bo);
});

test("a block empties the other's open pages", async () => {
  const { server, ann, bo } = scene;
  await follow(ann, "bo");
  await ann.click("nav-home");
  await shows(ann, ["What do you really think? #bread"], LIVE_MS);
  await go(bo, "/user/ann");
  await bo.click("[data-testid=profile] [data-testid=relations]");
  await bo.click("block");
  await bo.click("block");
  await shows(ann, [], BLOCKED_MS);
  await bo.sees("profile", "You blocked this person.");
  await go(ann, `/post/${id}`);
  await ann.sees("empty", "There is nothing here");
  assert.deepEqual(await posts(ann), []);
  await server.callAs("bo", "DELETE", "/users/ann/block");
});

test("a reply that is deleted is not counted, and replies follow the order", async () => {
  const { server, ann } = scene;
  const post = await server.callAs("bo", "POST", "/posts", { text: "Replies" });
  const comment = (text, more) => server.callAs("bo", "POST", `/posts/${post.id}/comments`, { text, ...more });
  const parent = await comment("parent");
  const reply = (text) => comment(text, { reply_to: parent.id });
  const replies = [await reply("one"), await reply("two")];
  await go(ann, `/post/${post.id}`);
  await commented(ann, ["parent", "one", "two"]);
  await ann.click("order-newest");
  await commented(ann, ["parent", "two", "one"]);
  await server.callAs("bo", "DELETE", `/comments/${replies[0].id}`);
  await ann.click("order-oldest");
  await commented(ann, ["parent", "two"]);
  replies.push(await reply("three"));
  await commented(ann, ["parent", "two", "three"], LIVE_MS);
  await server.callAs("bo", "DELETE", `/comments/${replies[1].id}`);
  await commented(ann, ["parent", "three"], LIVE_MS);
  replies.push(await reply("four"));
  await commented(ann, ["parent", "three", "four"], LIVE_MS);
});

test("one's own mute and block take the posts off the open pages, and an end of them brings them back", async () => {
  const { server, ann } = scene;
  const choose = async (text, action) => {
    const post = await idOf(ann, text);
    await ann.click(`[data-id="${post}"] [data-testid=more]`);
    await ann.click(action);
  };
  await server.postOf("bo", "On the plaza #plaza");
  await server.postOf("ann", "Mine #plaza");
  await go(ann, "/topic/plaza");
  await shows(ann, ["Mine #plaza", "On the plaza #plaza"]);
  await choose("On the plaza", "mute");
  await shows(ann, ["Mine #plaza"]);
  await go(ann, "/user/bo");
  await ann.sees("profile", "You muted this person");
  await ann.sees("post-body", "On the plaza");
  await ann.click("[data-testid=profile] [data-testid=relations]");
  await ann.click("unmute");
  await ann.until(() => ann.texts("profile"), ([text]) => !text.includes("You muted"), "the mute ended");
  await ann.run(() => history.back());
  await shows(ann, ["Mine #plaza", "On the plaza #plaza"]);
  await ann.click("nav-explore");
  await ann.sees("post-body", "On the plaza");
  await choose("On the plaza", "block");
  await ann.click("block");
  await ann.until(() => posts(ann), (now) => now.every((text) => text.includes("Mine")), "only one's own");
  await go(ann, `/post/${id}`);
  await ann.sees("empty", "There is nothing here");
  await go(ann, "/user/bo");
  await ann.sees("profile", "You blocked this person.");
  await ann.click("[data-testid=profile] [data-testid=relations]");
  await ann.click("unblock");
  await ann.sees("post-body", "On the plaza");
  await ann.run(() => history.back());
  await ann.sees("post-body", "What do you really think?");
  await go(ann, "/user/bo/comments");
  await ann.sees("comment-written", "Good.");
  await ann.click("[data-testid=profile] [data-testid=relations]");
  await ann.click("block");
  await ann.click("block");
  await ann.until(() => ann.texts("comment-written"), (now) => now.length === 0, "no comments of theirs");
  await ann.click("[data-testid=profile] [data-testid=relations]");
  await ann.click("unblock");
  await ann.sees("comment-written", "Good.");
});

test("pages whose subscription the server ends are read again", async () => {
  const { server, ann } = scene;
  const { id: other } = await server.postOf("ann", "Seen for now");
  const page = await scene.driver.browser();
  try {
    await page.open(`${server.origin}/post/${other}`);
    await signIn(page, "bo");
    await page.sees("post-body", "Seen for now");
    await server.callAs("ann", "PUT", "/users/bo/hide");
    const end = (channel) => server.backend("unsubscribe", { user: "bo", channel });
    await end(`post:${other}`);
    await page.sees("empty", "There is nothing here", LIVE_MS);
    await go(page, "/user/ann");
    await page.sees("profile-name", "Ann Arbor");
    await server.callAs("ann", "DELETE", "/users/bo/hide");
    await server.callAs("ann", "PUT", "/users/bo/block");
    await end("user:ann");
    await page.sees("empty", "There is nothing here", LIVE_MS);
    await server.callAs("ann", "DELETE", "/users/bo/block");
  } finally {
    await page.close();
  }
});
