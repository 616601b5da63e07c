// Comments that are edited and ordered, who liked them, and conversations that are muted.

import assert from "node:assert/strict";
import { test } from "node:test";

import { go, LIVE_MS, stage } from "./people.mjs";

const scene = stage({ people: { ann: "Ann Arbor", bo: "Bo Diddley" } });

test("a comment is edited live; likers and both orders are shown", async () => {
  const { server, ann, bo } = scene;
  const post = await server.callAs("ann", "POST", "/posts", { text: "Discuss" });
  for (const text of ["one", "two", "three"]) await server.callAs("bo", "POST", `/posts/${post.id}/comments`, { text });
  for (const browser of [ann, bo]) await go(browser, `/post/${post.id}`);
  const shown = (browser, wanted, ms) =>
    browser.until(() => browser.texts("comment-text-shown"), (now) => now.join() === wanted, wanted, ms);
  await shown(ann, "one,two,three");
  await bo.click("order-newest");
  await shown(bo, "three,two,one");
  await bo.sees("comment-text-shown", "three");
  await bo.click("comment-more");
  await bo.click("edit-comment");
  await bo.run(() => document.querySelector("[data-testid=edit-text]").select());
  await bo.type("edit-text", "four");
  await bo.click("edit-submit");
  await shown(bo, "four,two,one");
  await shown(ann, "one,two,four", LIVE_MS);
  await ann.sees("comment-edited", "edited");
  await ann.click("[data-testid=comment] [data-testid=like]");
  await ann.until(
    () => ann.run(() => document.querySelector("[data-testid=comment] [data-testid=like]").dataset.state),
    (now) => now === "settled",
    "settled",
  );
  await ann.click("comment-more");
  await ann.click("comment-likers");
  await ann.sees("people-dialog", "Ann Arbor");
  await ann.shot("likers");
  await ann.run(() => document.querySelector("dialog").close());
});

test("a muted conversation notifies no more", async () => {
  const { server, ann, bo } = scene;
  const quiet = await server.callAs("ann", "POST", "/posts", { text: "Quiet, please" });
  const loud = await server.callAs("ann", "POST", "/posts", { text: "Be loud" });
  await ann.click("nav-notifications");
  await go(ann, `/post/${quiet.id}`);
  await ann.click("more");
  await ann.click("mute-conversation");
  await ann.sees("toast", "This conversation is muted.");
  await ann.click("more");
  await ann.sees("unmute-conversation", "Unmute this conversation");
  await ann.press("\uE00C");
  await bo.click("nav-home");
  for (const { id } of [quiet, loud]) await server.callAs("bo", "POST", `/posts/${id}/comments`, { text: `on ${id}` });
  await ann.click("nav-notifications");
  const links = () =>
    ann.run(() => [...document.querySelectorAll("[data-testid=notification]")].map(({ href }) => href));
  const isLoud = (href) => new URL(href).pathname === `/post/${loud.id}`;
  await ann.until(links, (now) => now.some(isLoud), "a notification", 4 * LIVE_MS);
  assert.ok(!(await links()).some((href) => href.includes(`/post/${quiet.id}`)));
});
