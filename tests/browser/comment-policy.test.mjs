// Who can comment on a post: the choice when it is written and edited, and the thread of those who may not.

import assert from "node:assert/strict";
import { test } from "node:test";

import { inspect } from "./inspect.mjs";
import { go, idOf, stage, write } from "./people.mjs";

const ESCAPE = "\uE00C";

const as = (user, method, path, body) => scene.server.callAs(user, method, path, body);
const scene = stage({ people: { ann: "Ann Arbor", bo: "Bo Diddley" } });

const has = (browser, name) => browser.run((id) => document.querySelector(`[data-testid=${id}]`) !== null, name);
const visible = (browser, name) =>
  browser.run((id) => document.querySelector(`[data-testid=${id}]`)?.checkVisibility() ?? false, name);
const nameOf = (browser, place) =>
  browser.run((query) => document.querySelector(`${query} [data-testid=policy]`).getAttribute("aria-label"), place);
const policyOf = async (id) => (await as("bo", "GET", `/posts/${id}`)).comment_policy ?? "everyone";

test("a post is for everyone's comments unless its author chooses otherwise, each time anew", async () => {
  const { ann } = scene;
  await go(ann, "/");
  assert.equal(await nameOf(ann, ".home"), "Who can comment: Everyone");
  await ann.click(".home [data-testid=policy]");
  assert.deepEqual(await ann.texts(".menu [role=menuitemradio]"), [
    "Everyone",
    "Followers",
    "People you mention",
    "Nobody",
  ]);
  await ann.click("policy-nobody");
  assert.equal(await nameOf(ann, ".home"), "Who can comment: Nobody");
  await write(ann, "No comments, please");
  assert.equal(await policyOf(await idOf(ann, "No comments, please")), "nobody");
  assert.equal(await nameOf(ann, ".home"), "Who can comment: Everyone");
  await write(ann, "Say what you like");
  assert.equal(await policyOf(await idOf(ann, "Say what you like")), "everyone");
});

test("the choice is kept with a draft", async () => {
  const { ann } = scene;
  await go(ann, "/");
  await ann.type("post-text", "Not yet sent");
  await ann.click(".home [data-testid=policy]");
  await ann.click("policy-mentioned");
  await ann.reload();
  const kept = () => nameOf(ann, ".home").catch(() => "");
  await ann.until(kept, (now) => now === "Who can comment: People you mention", "it is kept");
  await ann.run(() => (document.querySelector("[data-testid=post-text]").value = ""));
  await write(ann, "For @bo alone");
  const id = await idOf(ann, "For @bo alone");
  assert.equal(await policyOf(id), "mentioned");
  assert.equal((await as("bo", "GET", `/posts/${id}`)).can_comment, true);
});

test("those who may not comment read who can, and cannot reply", async () => {
  const { server, bo } = scene;
  for (const [policy, sentence] of [
    ["followers", "Only followers of Ann Arbor can comment."],
    ["mentioned", "Only people mentioned in the post can comment."],
    ["nobody", "Nobody can comment on this post."],
  ]) {
    const { id } = await as("ann", "POST", "/posts", { text: `For ${policy}`, comment_policy: policy });
    await as("ann", "POST", `/posts/${id}/comments`, { text: "The author may always" });
    await go(bo, `/post/${id}`);
    await bo.sees("closed", sentence);
    await bo.sees("comment-text-shown", "The author may always");
    assert.equal(await has(bo, "comment-text"), false);
    assert.equal(await visible(bo, "reply"), false);
  }
  const { id } = await server.postOf("ann", "Open to all");
  await go(bo, `/post/${id}`);
  await bo.sees("comment-submit", "Send");
  assert.equal(await has(bo, "closed"), false);
});

test("an edit changes it, live, and what is written stays in its draft", async () => {
  const { server, ann, bo } = scene;
  const { id } = await server.postOf("ann", "First open");
  await as("ann", "POST", `/posts/${id}/comments`, { text: "A comment" });
  await go(bo, `/post/${id}`);
  await bo.type("comment-text", "I was about to");
  assert.equal(await visible(bo, "reply"), true);
  await go(ann, `/post/${id}`);
  await ann.click(".thread-post [data-testid=more]");
  await ann.click("edit");
  await ann.click("dialog [data-testid=policy]");
  await ann.click("policy-nobody");
  assert.equal(await nameOf(ann, "dialog"), "Who can comment: Nobody");
  await ann.click("edit-submit");
  await bo.sees("closed", "Nobody can comment on this post.");
  assert.equal(await visible(bo, "reply"), false);
  assert.equal(await policyOf(id), "nobody");
  // The author still comments, and the dialog shows what is so now.
  await ann.sees("comment-submit", "Send");
  await ann.until(
    async () => {
      await ann.click(".thread-post [data-testid=more]");
      await ann.click("edit");
      const name = await nameOf(ann, "dialog");
      await ann.press(ESCAPE);
      await ann.until(() => ann.run(() => document.querySelector("dialog")), (dialog) => !dialog, "closed");
      return name;
    },
    (name) => name === "Who can comment: Nobody",
    "the policy in the dialog",
  );
  await as("ann", "PATCH", `/posts/${id}`, { comment_policy: "everyone" });
  await bo.sees("comment-submit", "Send");
  assert.equal(await bo.run(() => document.querySelector("[data-testid=comment-text]").value), "I was about to");
  assert.equal(await visible(bo, "reply"), true);
  await bo.run(() => {
    const field = document.querySelector("[data-testid=comment-text]");
    field.value = "";
    field.dispatchEvent(new Event("input"));
  });
});

test("an edit of the text alone leaves it", async () => {
  const { ann } = scene;
  const { id } = await as("ann", "POST", "/posts", { text: "With a slip", comment_policy: "followers" });
  await go(ann, `/post/${id}`);
  await ann.click(".thread-post [data-testid=more]");
  await ann.click("edit");
  await ann.type("edit-text", " of the pen");
  await ann.click("edit-submit");
  await ann.until(() => as("ann", "GET", `/posts/${id}`), ({ text }) => text === "With a slip of the pen", "edited");
  assert.equal(await policyOf(id), "followers");
});

test("who follows the author comments at once where followers can", async () => {
  const { bo } = scene;
  const { id } = await as("ann", "POST", "/posts", { text: "Followers speak", comment_policy: "followers" });
  await go(bo, "/user/ann");
  await go(bo, `/post/${id}`);
  await bo.sees("closed", "Only followers of Ann Arbor can comment.");
  await bo.run(() => history.back());
  await bo.click("[data-testid=profile] [data-testid=follow]");
  await bo.until(() => as("bo", "GET", "/users/ann"), ({ edges }) => edges.following, "followed");
  await bo.run(() => history.forward());
  await bo.sees("comment-submit", "Send");
});

test("the forms and the thread fit, have no findings, and speak Chinese", async () => {
  const { ann, bo } = scene;
  const { id } = await as("ann", "POST", "/posts", { text: "Quiet, please", comment_policy: "nobody" });
  await go(bo, `/post/${id}`);
  await bo.sees("closed", "Nobody");
  await inspect(bo, "policy-thread");
  await go(ann, "/explore");
  await ann.click("compose-open");
  await ann.click("dialog [data-testid=policy]");
  await ann.click("policy-mentioned");
  await inspect(ann, "policy-compose");
  await ann.press(ESCAPE);
  await go(ann, `/post/${id}`);
  await ann.click(".thread-post [data-testid=more]");
  await ann.click("edit");
  await inspect(ann, "policy-edit");
  await ann.press(ESCAPE);
  await go(bo, "/settings");
  await bo.click("choose-zh");
  await bo.sees("nav-home", "首页");
  await go(bo, `/post/${id}`);
  await bo.sees("closed", "这条帖子不能评论。");
  await go(bo, "/");
  assert.equal(await nameOf(bo, ".home"), "谁可以评论: 所有人");
});
