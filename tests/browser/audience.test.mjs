// Choosing who can see a post: the menu and the picker work wherever a post can be written, at both widths.

import assert from "node:assert/strict";
import { test } from "node:test";

import { DESKTOP, findings, PHONE } from "./inspect.mjs";
import { go, LIVE_MS, shows, stage } from "./people.mjs";

const scene = stage({
  people: { ann: "Ann Arbor", bo: "Bo Diddley" },
  before: async ({ server }) => {
    const headers = { "content-type": "application/json" };
    for (const [user, name] of Object.entries({ cleo: "Cléo van Dijk", dan: "Dan Ek" })) {
      const body = JSON.stringify({ user, name, password: "correct horse battery" });
      await fetch(`${server.origin}/api/v1/accounts`, { method: "POST", headers, body });
    }
    for (const follower of ["bo", "cleo", "dan"]) await server.callAs(follower, "PUT", "/users/ann/follow");
  },
});

const FORM = "[data-testid=compose-dialog]";

/** Where a post is written: the view, the width, and the form after `open`. */
const PLACES = [
  ["Home, wide", "/", DESKTOP, null, "[data-testid=compose]"],
  ["a dialog, wide", "/topics", DESKTOP, "n", FORM],
  ["a dialog on a phone", "/", PHONE, "fab", FORM],
  ["a dialog on a phone, over a thread", "/topics", PHONE, "fab", FORM],
];

for (const [place, path, size, opener, form] of PLACES) {
  test(`every audience can be chosen: ${place}`, async () => {
    const { ann } = scene;
    await ann.emulate(size);
    await go(ann, path);
    if (opener === "n") await ann.press("n");
    else if (opener) await ann.click(opener);
    for (const name of ["followers", "friends", "public"]) {
      await ann.click(`${form} [data-testid=audience]`);
      await ann.click(`audience-${name}`);
      const label = { public: "Everyone", followers: "Followers", friends: "Friends" }[name];
      await ann.sees(`${form} [data-testid=audience]`, label);
    }
    await ann.click(`${form} [data-testid=audience]`);
    await ann.shot(`audience-${size.width}-${opener ?? "home"}`);
    await ann.click("audience-only_to");
    await ann.type("picker-name", "van d");
    const listed = () => ann.texts("[data-testid=picker] li");
    await ann.until(listed, (now) => now.length === 1 && now[0].includes("Cléo"), "a word of a name finds her");
    await ann.run(() => (document.querySelector("[data-testid=picker-name]").value = ""));
    await ann.type("picker-name", "cle");
    await ann.click("[data-testid=picker] li[data-user=cleo] input");
    assert.deepEqual(await findings(ann), []);
    await ann.shot(`picker-${size.width}-${opener ?? "home"}`);
    await ann.click("[data-testid=picker-done]");
    await ann.sees(`${form} [data-testid=audience]`, "Only to 1 person");
    await ann.click(`${form} [data-testid=audience]`);
    await ann.click("audience-public");
    if (opener) await ann.click("dialog [aria-label=Close]");
  });
}

test("a recipient reads who can see it, and not how many", async () => {
  const { ann, bo, server } = scene;
  await ann.emulate(DESKTOP);
  await go(ann, "/");
  await server.callAs("bo", "PUT", "/users/ann/follow");
  await ann.click("audience");
  await ann.click("audience-only_to");
  await ann.click("[data-testid=picker] li[data-user=bo] input");
  await ann.click("[data-testid=picker] li[data-user=dan] input");
  await ann.click("[data-testid=picker-done]");
  await ann.type("post-text", "for some");
  await ann.click("post-submit");
  await go(bo, "/");
  await shows(bo, ["for some"], LIVE_MS);
  await bo.sees("post", "Only to some, you among them");
  await ann.sees("post", "Only to 2 people");
});
