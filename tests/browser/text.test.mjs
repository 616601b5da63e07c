// What users wrote: links, mentions and topics lead where they say, and no name turns the text around it.

import assert from "node:assert/strict";
import { test } from "node:test";

import { createAccount, go, stage } from "./people.mjs";

const NAME = "\u2069\u202eyC\u2067\u2066";

const scene = stage({
  people: { ann: "Ann Arbor" },
  before: ({ server }) => createAccount(server, "cy", NAME),
});

/** The links of the first post: their texts and where they lead. */
const links = () =>
  [...document.querySelectorAll("[data-testid=post-body] a")].map((a) => [a.textContent, a.getAttribute("href")]);

test("links, mentions and topics are those that the server found", async () => {
  const { server, ann } = scene;
  const text =
    "谢谢@cy #İstanbul https://example.org/@cy#a medium.com/@cy www.example.org. javascript://%0aalert(1) " +
    "mailto:cy@example.org it&#39;s cy@example.org @nobody@example.org #1";
  const { id } = await server.postOf("ann", text);
  await go(ann, `/post/${id}`);
  // The body that is seen first may be that of the timeline, which the post's own view replaces.
  await ann.sees("post-body", "谢谢@cy");
  const found = await ann.until(() => ann.run(links), ({ length }) => length > 0, "the links");
  assert.deepEqual(found, [
    ["@cy", "/user/cy"],
    ["#İstanbul", `/topic/${encodeURIComponent("i\u0307stanbul")}`],
    ["example.org/@cy#a", "https://example.org/@cy#a"],
    ["medium.com/@cy", "https://medium.com/@cy"],
    ["www.example.org", "https://www.example.org"],
    ["mailto:cy@example.org", "mailto:cy@example.org"],
  ]);
  await go(ann, `/topic/${encodeURIComponent("İSTANBUL")}`);
  await ann.sees("post-body", "谢谢@cy");
});

test("a name does not turn the text beside it", async () => {
  const { server, ann } = scene;
  await server.callAs("cy", "PUT", "/users/ann/follow");
  await ann.click("nav-notifications");
  await ann.sees("notification", "followed you");
  const order = await ann.run(() => {
    const rest = document.querySelector("[data-testid=notification] .sum span").lastChild;
    const left = (node, at) => {
      const range = document.createRange();
      range.setStart(node, at);
      range.setEnd(node, at + 1);
      return range.getBoundingClientRect().left;
    };
    const name = document.querySelector("[data-testid=notification] bdi").getBoundingClientRect().left;
    return [name, left(rest, 0), left(rest, rest.length - 1)];
  });
  assert.deepEqual(order, order.toSorted((a, b) => a - b), "the name, then the rest from left to right");
  await go(ann, "/user/cy");
  await ann.sees("profile-name", "yC");
  assert.equal(await ann.run(() => /[\u202a-\u202e\u2066-\u2069]/.test(document.title)), false);
});
