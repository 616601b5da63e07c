// Reading: threads from the first comment to the last, with their replies; and pictures, large.

import assert from "node:assert/strict";
import { test } from "node:test";

import { findings, fits, PHONE } from "./inspect.mjs";
import { go, live, stage } from "./people.mjs";

const WIDE = { width: 1240, height: 900 };
const [ENTER, ESCAPE, LEFT, RIGHT] = ["\uE007", "\uE00C", "\uE012", "\uE014"];
const scene = stage({ people: { ann: "Ann Arbor", bo: "Bo Diddley" } });

const shown = (browser) => browser.texts("comment-text-shown");
const commented = (browser, wanted) =>
  browser.until(() => shown(browser), (now) => now.join() === wanted.join(), `not ${wanted}`);
const focused = (browser) => browser.run(() => document.activeElement.dataset.testid);
const closed = (browser) =>
  browser.until(() => browser.run(() => document.querySelector("dialog") === null), Boolean, "closed");

/** Writes a comment and answers with its id. */
const commentOn = async (post, text, replyTo) => {
  const reply = replyTo && { reply_to: replyTo };
  return (await scene.server.callAs("bo", "POST", `/posts/${post}/comments`, { text, ...reply })).id;
};

test("a thread is read from top to bottom: the first comment first, replies open three levels deep", async () => {
  const { server, ann } = scene;
  const { id } = await server.postOf("bo", "Read me");
  const first = await commentOn(id, "first");
  await commentOn(id, "last");
  let above = first;
  let deepest = first;
  for (const text of ["level 1", "level 2", "level 3", "level 4"])
    [deepest, above] = [above, await commentOn(id, text, above)];
  for (const n of [2, 3, 4, 5]) await commentOn(id, `other ${n}`, first);
  await go(ann, `/post/${id}`);
  const open = ["first", "level 1", "level 2", "level 3", "other 2", "other 3", "last"];
  await commented(ann, open);
  const buttons = () => ann.texts("[data-testid=expand]:not([hidden])");
  assert.deepEqual(await buttons(), ["Show 1 reply", "Show 2 replies"], "a deeper level, and many");
  await ann.emulate(PHONE);
  await fits(ann, "a deep thread on a phone");
  const widths = await ann.run(() =>
    [...document.querySelectorAll("[data-testid=comment-text-shown]")].map((text) => text.clientWidth),
  );
  assert.ok(Math.min(...widths) >= 200, `${widths} px`);
  await ann.shot("thread-deep-phone");
  await ann.emulate(WIDE);
  await ann.shot("thread-deep");
  await ann.run(() => [...document.querySelectorAll("[data-testid=expand]:not([hidden])")].at(-1).focus());
  await ann.press(ENTER);
  await commented(ann, [...open.slice(0, -1), "other 4", "other 5", "last"]);
  assert.equal(await ann.run(() => document.activeElement.querySelector(".text")?.textContent), "other 4");
  assert.deepEqual(await buttons(), ["Show 1 reply"]);
  // As many as were shown are shown after a loss of the connection, and not more. The like of another device is not
  // pushed again: it is there once the thread was read anew. The second like needs one more answer of the server.
  const like = (comment) => `[data-comment="${comment}"] > .post-main > .actions [data-testid=like]`;
  const likeOf = (comment, name) =>
    ann.run((found, key) => document.querySelector(found).getAttribute(key), like(comment), name);
  await ann.click("drop");
  await commentOn(id, "one more", first);
  await server.callAs("ann", "PUT", `/comments/${deepest}/like`);
  await live(ann);
  const all = [...open.slice(0, -1), "other 4", "other 5", "one more", "last"];
  await commented(ann, all);
  await ann.until(() => likeOf(deepest, "aria-pressed"), (pressed) => pressed === "true", "read anew");
  await ann.click(like(first));
  await ann.until(() => likeOf(first, "data-state"), (now) => now === "settled", "liked");
  assert.deepEqual(await shown(ann), all);
  // A level more goes no further in.
  await ann.click("[data-testid=expand]:not([hidden])");
  await ann.sees("comment-text-shown", "level 4");
  await ann.emulate(PHONE);
  const lefts = await ann.run(() =>
    [...document.querySelectorAll("[data-testid=comment-text-shown]")]
      .filter((text) => /^level [34]$/.test(text.textContent))
      .map((text) => text.getBoundingClientRect().left),
  );
  assert.equal(lefts[0], lefts[1]);
  await ann.emulate(WIDE);
});

test("a comment of one's own has its place once those before it are read", async () => {
  const { server, ann } = scene;
  const { id } = await server.postOf("bo", "A long thread");
  for (let n = 1; n <= 24; n += 1) await commentOn(id, `comment ${n}`);
  await go(ann, `/post/${id}`);
  await ann.sees("comment-text-shown", "comment 20");
  await ann.type("comment-text", "mine");
  await ann.click("comment-submit");
  await ann.sees("comment-text-shown", "mine");
  assert.equal((await shown(ann)).at(-1), "mine");
  await ann.sees("more-rows", "Show more");
  await ann.click("more-rows");
  await commented(ann, [...Array.from({ length: 24 }, (_, at) => `comment ${at + 1}`), "mine"]);
});

test("the box of a comment has one line, and grows", async () => {
  const { ann } = scene;
  const height = () =>
    ann.run(() => Math.round(document.querySelector("[data-testid=comment-text]").getBoundingClientRect().height));
  const form = () => ann.run(() => document.querySelector(".thread > .reply").offsetHeight);
  assert.ok((await height()) <= 46, `${await height()} px`);
  assert.ok((await form()) <= 68, `${await form()} px with its button`);
  await ann.type("comment-text", "one\ntwo\nthree");
  assert.ok((await height()) > 75, `${await height()} px`);
  await ann.emulate(PHONE);
  await fits(ann, "the box on a phone");
  await ann.run(() => {
    const field = document.querySelector("[data-testid=comment-text]");
    field.value = "";
    field.dispatchEvent(new Event("input", { bubbles: true }));
  });
  assert.ok((await form()) <= 68, `${await form()} px on a phone`);
  await ann.emulate(WIDE);
});

test("pictures open large: by click and Enter, with arrows, their descriptions, and the way back", async () => {
  const { server, ann } = scene;
  const picture = (alt) => ({ type: "image", url: "/icon.svg", ...(alt && { alt }) });
  const media = [picture("A line with two nodes"), picture(), picture("Again")];
  const { id } = await server.callAs("ann", "POST", "/posts", { text: "Look", media });
  await ann.emulate(WIDE);
  await go(ann, "/");
  const place = `article[data-id="${id}"] [data-testid=picture]`;
  await ann.click(place);
  await ann.sees("lightbox", "Picture 1 of 3");
  await ann.sees("lightbox-alt", "A line with two nodes");
  assert.equal(await ann.run(() => document.querySelector(".lightbox img").alt), "A line with two nodes");
  const isLarge = () => {
    const { left, top, right, bottom } = document.querySelector(".lightbox img").getBoundingClientRect();
    const isInside = left >= 0 && top >= 0 && right <= innerWidth && bottom <= innerHeight;
    return isInside && Math.max((right - left) / innerWidth, (bottom - top) / innerHeight) > 0.8;
  };
  const large = () => ann.until(() => ann.run(isLarge), Boolean, "the picture is as large as the window lets it be");
  await large();
  assert.deepEqual(await findings(ann), [], "the lightbox");
  await ann.shot("lightbox");
  await ann.press(RIGHT);
  await ann.sees("lightbox", "Picture 2 of 3");
  assert.equal(await ann.run(() => document.querySelector("[data-testid=lightbox-alt]").hidden), true);
  await ann.press(LEFT);
  await ann.press(LEFT);
  await ann.sees("lightbox", "Picture 3 of 3");
  await ann.press(ESCAPE);
  await closed(ann);
  assert.equal(await focused(ann), "picture");
  assert.equal(await ann.run(() => location.pathname), "/");
  // Some browsers do not focus a link that is clicked.
  await ann.run((name) => {
    document.activeElement.blur();
    document.querySelector(name).click();
  }, place);
  await ann.sees("lightbox", "Picture 1 of 3");
  await ann.press(ESCAPE);
  await closed(ann);
  assert.equal(await focused(ann), "picture");
  await ann.press(ENTER);
  await ann.sees("lightbox", "Picture 1 of 3");
  await ann.emulate(PHONE);
  await fits(ann, "the lightbox on a phone");
  await large();
  await ann.shot("lightbox-phone");
  await ann.emulate(WIDE);
  await ann.run(() => history.back());
  await closed(ann);
  assert.equal(await ann.run(() => location.pathname), "/");
  assert.equal(await focused(ann), "picture");
});
