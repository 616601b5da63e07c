// Long texts: cut until somebody wants more, counted as the server counts; and the button for writing on a phone.

import assert from "node:assert/strict";
import { test } from "node:test";

import { go, LIVE_MS, stage } from "./people.mjs";

const PHONE = { width: 390, height: 844 };
const scene = stage({ people: { ann: "Ann Arbor", bo: "Bo Diddley" } });

const textOf = (browser, place) => browser.run((name) => document.querySelector(name)?.textContent, place);

test("a long post is cut behind a word, and whole on request and in its thread", async () => {
  const { server, ann } = scene;
  const words = Array.from({ length: 300 }, (_, n) => `word${n}`).join(" ");
  const { id } = await server.postOf("ann", `${words} #bread`);
  const { id: short } = await server.postOf("ann", "x".repeat(1_050));
  const place = (of) => `article[data-id="${of}"] [data-testid=post-body]`;
  await ann.sees(place(id), "word100", LIVE_MS);
  const cut = await textOf(ann, place(id));
  assert.match(cut, /^word0 .* word\d+… Show more$/);
  assert.ok(cut.length < 1_020, `${cut.length} characters`);
  assert.ok(words.startsWith(cut.split("…")[0]), "no half of a word");
  assert.equal((await textOf(ann, place(short))).length, 1_050, "little more is not cut");
  await ann.click(`${place(id)} [data-testid=show-more]`);
  assert.equal(await textOf(ann, place(id)), `${words} #bread`);
  assert.equal(await ann.run(() => location.pathname), "/", "the thread is not opened");
  await go(ann, `/post/${id}`);
  await ann.sees("[data-testid=thread] [data-testid=post-body]", "word299");
  const href = await ann.run(() => document.querySelector("[data-testid=thread] .text a").getAttribute("href"));
  assert.equal(href, "/topic/bread");
});

test("comments are counted in characters, and too long ones are kept and refused", async () => {
  const { server, ann } = scene;
  const { id } = await server.postOf("bo", "Say something long");
  await go(ann, `/post/${id}`);
  const paste = (text) =>
    ann.run((pasted) => {
      const field = document.querySelector("[data-testid=comment-text]");
      field.focus();
      field.select();
      document.execCommand("insertText", false, pasted);
      return [...field.value].length;
    }, text);
  await ann.sees("comment-text", "");
  assert.equal(await paste("\u{1F600}".repeat(5_010)), 5_010, "nothing is cut");
  await ann.sees(".reply .left", "-10");
  await ann.click("comment-submit");
  await ann.sees(".reply .error", "A text has at most 5,000 characters.");
  assert.equal(await paste("\u{1F600}".repeat(4_995)), 4_995);
  await ann.sees(".reply .left", "5");
  await ann.click("comment-submit");
  await ann.sees("comment-text-shown", "\u{1F600}");
  const { items } = await server.callAs("ann", "GET", `/posts/${id}/comments`);
  assert.equal([...items[0].text].length, 4_995);
});

test("on a phone the button for writing replies in a thread, and leaves while somebody scrolls down", async () => {
  const { server, ann } = scene;
  const { id } = await server.postOf("bo", "Reply to me");
  for (let n = 0; n < 15; n += 1) await server.callAs("bo", "POST", `/posts/${id}/comments`, { text: `line ${n}` });
  await ann.emulate(PHONE);
  await go(ann, `/post/${id}`);
  await ann.sees("comment-text-shown", "line 14");
  const button = () => ann.run(() => document.querySelector("[data-testid=fab]").getAttribute("aria-label"));
  assert.equal(await button(), "Write a comment");
  const seen = () => ann.run(() => getComputedStyle(document.querySelector("[data-testid=fab]")).opacity);
  const away = (wanted) => ann.until(seen, (now) => now === wanted, `opacity ${wanted}`);
  for (const [by, opacity] of [[300, "0"], [-200, "1"]]) {
    await ann.run((pixels) => scrollBy(0, pixels), by);
    await away(opacity);
  }
  await ann.click("fab");
  assert.equal(await ann.run(() => document.activeElement.dataset.testid), "comment-text");
  // At the end nothing is under it.
  await ann.run(() => scrollTo(0, document.body.scrollHeight));
  const gap = await ann.run(() => {
    const { bottom } = [...document.querySelectorAll("[data-testid=comment]")].at(-1).getBoundingClientRect();
    return document.querySelector("[data-testid=fab]").getBoundingClientRect().top - bottom;
  });
  assert.ok(gap >= 0, `${gap} px`);
  await go(ann, "/");
  assert.equal(await button(), "New post");
  await ann.emulate({ width: 1240, height: 900 });
});
