// A post with its thread, live; and the effect of blocks, follows and mutes on open pages.

import assert from "node:assert/strict";
import { test } from "node:test";

import { follow, go, idOf, LIVE_MS, posts, shows, stage, write } from "./people.mjs";

const BLOCKED_MS = 1_000;
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

test("a block empties the other's open pages", async () => {
  const { ann, bo } = scene;
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
});
