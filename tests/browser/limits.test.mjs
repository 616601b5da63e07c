// The limits of the server's configuration, in the forms of the page.

import assert from "node:assert/strict";
import { test } from "node:test";

import { go, LIVE_MS, stage } from "./people.mjs";

const LIMIT = 50;
const scene = stage({
  people: { ann: "Ann Arbor" },
  env: { FEEDLINE__LIMITS__TEXT: String(LIMIT), FEEDLINE__LIMITS__MEDIA: "1" },
});

/** Pastes as many characters into a field, each of two UTF-16 units; returns how many are there. */
const paste = (browser, field, number) =>
  browser.run(
    (name, pasted) => {
      const element = document.querySelector(`[data-testid=${name}]`);
      element.focus();
      element.select();
      document.execCommand("insertText", false, pasted);
      return [...element.value].length;
    },
    field,
    "\u{1F600}".repeat(number),
  );

/** Waits for what a form says of the characters that are left. */
const left = (browser, form, wanted) =>
  browser.until(
    () => browser.run((query) => document.querySelector(`${query} .left`)?.textContent, form),
    (now) => now === wanted,
    `${wanted} left`,
  );

for (const [what, form, field, submit] of [
  ["post", ".compose", "post-text", "post-submit"],
  ["comment", ".reply", "comment-text", "comment-submit"],
]) {
  test(`the form of a ${what} counts down to the configured limit`, async () => {
    const { server, ann } = scene;
    if (what === "comment") {
      const { id } = await server.postOf("ann", "to be discussed");
      await go(ann, `/post/${id}`);
    }
    await ann.sees(field, "");
    for (const [number, shown] of [[LIMIT - 11, ""], [LIMIT - 10, "10"], [LIMIT, "0"], [LIMIT + 5, "-5"]]) {
      assert.equal(await paste(ann, field, number), number, "nothing is cut");
      await left(ann, form, shown);
    }
    await ann.click(submit);
    await ann.sees(`${form} .error`, "A text has at most 50 characters.", LIVE_MS);
    assert.equal(await paste(ann, field, LIMIT), LIMIT);
    await ann.click(submit);
    await ann.sees(what === "post" ? "post-body" : "comment-text-shown", "\u{1F600}".repeat(LIMIT), LIVE_MS);
  });
}
