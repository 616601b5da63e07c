// A profile: what somebody wrote and liked, whom they know, what they say about themselves. And the lists of those whom
// one keeps away.

import assert from "node:assert/strict";
import { test } from "node:test";

import { createAccount, go, stage } from "./people.mjs";

const scene = stage({
  people: { ann: "Ann Arbor", bo: "Bo Diddley" },
  before: async ({ server }) => {
    await createAccount(server, "cy", "Cy Twombly");
    await createAccount(server, "di", "Di Prima");
  },
});

/** A user's profile, as the server shows it to another. */
const profile = (user, of) => scene.server.callAs(user, "GET", `/users/${of}`);

test("a profile has tabs for posts, comments and likes", async () => {
  const { server, ann } = scene;
  await server.postOf("ann", "Ann’s own");
  const { id } = await server.postOf("cy", "Cy’s open letter");
  await server.callAs("ann", "POST", `/posts/${id}/comments`, { text: "Well written, @cy" });
  await server.callAs("ann", "PUT", `/posts/${id}/like`);
  const settled = () => server.callAs("ann", "GET", "/users/ann/likes");
  await ann.until(settled, ({ items }) => items.length === 1, "the like is settled");
  await go(ann, "/user/ann");
  await ann.sees("post-body", "Ann’s own");
  await ann.click("tab-comments");
  await ann.sees("comment-written", "Well written, @cy");
  await ann.click("tab-likes");
  await ann.sees("post-body", "Cy’s open letter");
  assert.equal(await ann.run(() => location.pathname), "/user/ann/likes");
  await ann.click("[data-testid=comments]");
  await ann.sees("comment-text-shown", "Well written, @cy");
});

test("a profile says who of those one follows follows them", async () => {
  const { server, ann } = scene;
  for (const [user, whom] of [["ann", "bo"], ["ann", "di"], ["bo", "cy"], ["di", "cy"], ["bo", "ann"]]) {
    await server.callAs(user, "PUT", `/users/${whom}/follow`);
  }
  await go(ann, "/user/cy");
  await ann.until(
    () => ann.texts("shared"),
    ([text = ""]) => /^Followed by .*(Bo Diddley and Di Prima|Di Prima and Bo Diddley), whom you follow$/.test(text),
    "both names",
  );
  await go(ann, "/user/cy/shared");
  await ann.sees("people", "Di Prima");
  await go(ann, "/user/ann");
  await ann.click("figure-friends");
  await ann.sees("people", "Bo Diddley");
  assert.equal((await ann.texts("[data-testid=people] [data-testid=person]")).length, 1);
});

test("what one writes about oneself is on the profile, as text", async () => {
  const { ann, bo } = scene;
  await ann.click("nav-settings");
  await ann.type("settings-bio", "Bakes <b>bread</b>. https://example.org/bread");
  await ann.click("save-profile");
  await ann.sees("save-profile-done", "Saved.");
  await go(bo, "/user/ann");
  await bo.sees("bio", "Bakes <b>bread</b>. example.org/bread");
  await ann.run(() => (document.querySelector("[data-testid=settings-bio]").value = ""));
  await ann.click("save-profile");
  await ann.until(() => profile("bo", "ann"), ({ bio, name }) => !bio && name === "Ann Arbor", "no bio");
});

test("those who are muted, hidden from and blocked are listed in the settings, and can be let back", async () => {
  const { server, ann } = scene;
  for (const [verb, whom] of [["mute", "bo"], ["hide", "cy"], ["block", "di"]]) {
    await server.callAs("ann", "PUT", `/users/${whom}/${verb}`);
  }
  await go(ann, "/");
  await ann.click("nav-settings");
  for (const [list, name, undo, whom, edge] of [
    ["muted", "Bo Diddley", "unmute", "bo", "muting"],
    ["hidden", "Cy Twombly", "unhide", "cy", "hiding"],
    ["blocked", "Di Prima", "unblock", "di", "blocking"],
  ]) {
    await ann.click(`[data-testid=list-${list}] summary`);
    await ann.sees(`list-${list}`, name);
    if (list === "muted") {
      await ann.run(() => document.querySelector("[data-testid=list-muted]").scrollIntoView({ block: "center" }));
      await ann.shot("settings-muted");
    }
    await ann.click(undo);
    await ann.until(() => profile("ann", whom), ({ edges }) => edges[edge] === false, `${whom} is let back`);
  }
});
