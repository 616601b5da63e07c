// Notifications quote the comment that they are about, and lead to it, wherever it is in the thread.

import assert from "node:assert/strict";
import { test } from "node:test";

import { go, idOf, live, setOffline, stage, state, write } from "./people.mjs";

const scene = stage({ people: { ann: "Ann Arbor", bo: "Bo Diddley" } });

const said = async (user, post, text, replyTo) => {
  const body = { text, ...(replyTo && { reply_to: replyTo }) };
  return (await scene.server.callAs(user, "POST", `/posts/${post}/comments`, body)).id;
};

/** The comment that is marked: its text, whether it has the focus, and whether it is on the screen. */
const marked = (browser) =>
  browser.run(() => {
    const one = document.querySelector("[data-testid=comment][data-marked]");
    if (!one) return null;
    const { top, bottom } = one.getBoundingClientRect();
    const text = one.querySelector("[data-testid=comment-text-shown]").textContent;
    return [text, document.activeElement === one, top >= 0 && bottom <= innerHeight];
  });

const leadsTo = (browser, text) =>
  browser.until(
    () => marked(browser),
    (now) => JSON.stringify(now) === JSON.stringify([text, true, true]),
    `not at ${text}`,
  );

test("a reply is quoted, and found beyond the first page", async () => {
  const { ann, bo } = scene;
  await write(ann, "Who bakes?");
  const post = await idOf(ann, "Who bakes?");
  const mine = await said("ann", post, "I do.");
  for (let n = 0; n < 25; n += 1) await said("bo", post, `noise ${n}`);
  for (let n = 0; n < 21; n += 1) await said("ann", post, `my noise ${n}`, mine);
  await said("bo", post, "With sourdough?", mine);
  // More than a page that is read at once after a reconnection.
  for (let n = 0; n < 105; n += 1) await said("ann", post, `more noise ${n}`, mine);
  await go(ann, "/notifications");
  await ann.sees('[data-testid=notification][data-kind="reply"]', "With sourdough?");
  await ann.sees('[data-testid=notification][data-kind="comment"]', "noise 24");
  await ann.shot("notifications-quotes");
  await ann.click('[data-testid=notification][data-kind="reply"]');
  await leadsTo(ann, "With sourdough?");
  await ann.shot("thread-marked");
  // It is still there, once, when the thread was read anew after a reconnection.
  scene.expected = ["WebSocket connection to", "ERR_INTERNET_DISCONNECTED"];
  await setOffline(ann, true);
  await state(ann, "lost");
  await said("bo", post, "While you were away");
  await setOffline(ann, false);
  await live(ann);
  await ann.sees("comment-text-shown", "While you were away");
  const shown = async (text) => (await ann.texts("comment-text-shown")).filter((one) => one === text).length;
  for (const text of ["With sourdough?", "I do."]) {
    await ann.until(() => shown(text), (now) => now === 1, `${text} once`);
  }
  assert.equal(await ann.run(() => document.querySelectorAll("[data-testid=comment][data-marked]").length), 1);
});

test("a mention in a comment, a like of one and a comment on a post quote these", async () => {
  const { ann, bo, server } = scene;
  const { id: post } = await server.postOf("bo", "Rye or wheat?");
  const mine = await said("ann", post, "Rye, surely.");
  await said("bo", post, "What says @ann to spelt?");
  await server.callAs("bo", "PUT", `/comments/${mine}/like`);
  await go(ann, "/notifications");
  await ann.sees('[data-testid=notification][data-kind="mention"]', "What says @ann to spelt?");
  await ann.sees('[data-testid=notification][data-kind="like"]', "Rye, surely.");
  await ann.click('[data-testid=notification][data-kind="mention"]');
  await leadsTo(ann, "What says @ann to spelt?");
  await go(bo, "/notifications");
  await bo.sees('[data-testid=notification][data-kind="comment"]', "Rye, surely.");
  await bo.click('[data-testid=notification][data-kind="comment"]');
  await leadsTo(bo, "Rye, surely.");
});

test("an address with a comment that is gone shows the thread", async () => {
  const { ann, server } = scene;
  const { id: post } = await server.postOf("ann", "Gone soon");
  const comment = await said("bo", post, "a short life");
  await said("bo", post, "a longer one");
  await server.callAs("bo", "DELETE", `/comments/${comment}`);
  await go(ann, `/post/${post}?comment=${comment}`);
  await ann.sees("comment-text-shown", "a longer one");
  assert.equal(await marked(ann), null);
});
