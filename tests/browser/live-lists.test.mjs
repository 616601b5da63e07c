// An open list is live: its posts, reposts of them, its members, a lost connection, and its end.

import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { fits, PHONE, DESKTOP } from "./inspect.mjs";
import { createAccount, go, live, quiet, setOffline, shows, signIn, stage, state } from "./people.mjs";

const UNREACHABLE = ["WebSocket connection to", "ERR_INTERNET_DISCONNECTED"];
const as = (user, method, path, body) => scene.server.callAs(user, method, path, body);
const NAMES = { bo: "Bo Diddley", cy: "Cy Twombly", di: "Di Prima", ed: "Ed Ruscha" };

/** A second window of the same reader. */
let other;
/** The list that is open. */
let list;
const scene = stage({
  people: { ann: "Ann Arbor" },
  before: async ({ server, driver, ann }) => {
    for (const [id, name] of Object.entries(NAMES)) await createAccount(server, id, name);
    list = (await as("ann", "POST", "/lists", { name: "Near" })).id;
    for (const user of ["bo", "cy"]) await member("PUT", user);
    other = await driver.browser();
    await other.open(server.origin);
    await signIn(other, "ann");
    await live(other);
    await go(ann, `/?list=${list}`);
    await ann.sees("empty", "No posts yet");
  },
  after: () => other?.close(),
});
afterEach(() => other && quiet(other));

const member = (method, user) => as("ann", method, `/lists/${list}/users/${user}`);
const post = async (user, text) => (await as(user, "POST", "/posts", { text })).id;
const repost = (user, id) => as(user, "PUT", `/posts/${id}/repost`);
const within = (id, name) => `[data-id="${id}"] [data-testid=${name}]`;
const text = (browser, query) =>
  browser.run((of) => {
    const found = document.querySelector(of);
    return found && !found.hidden ? found.textContent : "";
  }, query);
const textIs = (browser, query, wanted) =>
  browser.until(() => text(browser, query), (now) => now === wanted, `${query} is ${wanted}`);

test("posts of members arrive live, are edited, and leave; those of others do not come", async () => {
  const { ann } = scene;
  await post("bo", "From Bo");
  await shows(ann, ["From Bo"]);
  await post("di", "From Di");
  const id = await post("cy", "From Cy");
  await shows(ann, ["From Cy", "From Bo"]);
  await as("cy", "PATCH", `/posts/${id}`, { text: "From Cy, edited" });
  await shows(ann, ["From Cy, edited", "From Bo"]);
  await as("cy", "DELETE", `/posts/${id}`);
  await shows(ann, ["From Bo"]);
});

test("a repost of a post that the list has is counted, another one is shown", async () => {
  const { ann } = scene;
  const id = await post("bo", "Lines");
  await shows(ann, ["Lines", "From Bo"]);
  await repost("cy", id);
  await textIs(ann, within(id, "passed"), "Cy Twombly reposted");
  await shows(ann, ["Lines", "From Bo"]);
  const far = await post("ed", "Standard station");
  await repost("cy", far);
  await shows(ann, ["Standard station", "Lines", "From Bo"]);
  await textIs(ann, within(far, "passed"), "Cy Twombly reposted");
  await repost("bo", far);
  await textIs(ann, within(far, "passed"), "Cy Twombly and 1 other reposted");
  await ann.shot("live-lists-reposts");
  await ann.emulate(PHONE);
  await fits(ann, "a list on a phone");
  await ann.shot("live-lists-reposts-phone");
  await ann.emulate(DESKTOP);
  await as("cy", "DELETE", `/posts/${far}/repost`);
  await as("bo", "DELETE", `/posts/${far}/repost`);
  await shows(ann, ["Lines", "From Bo"]);
});

test("the posts of who is put in or taken out in another tab come and leave", async () => {
  const { ann } = scene;
  const box = `#in-list-${list}`;
  const click = async (user) => {
    await go(other, `/user/${user}`);
    await other.click("relations");
    await other.click("add-to-lists");
    await other.click(box);
  };
  await click("di");
  await shows(ann, ["Lines", "From Di", "From Bo"]);
  await click("bo");
  // What Cy reposted stays, as a repost.
  await shows(ann, ["Lines", "From Di"]);
  await click("cy");
  await shows(ann, ["From Di"]);
  await click("bo");
  await shows(ann, ["Lines", "From Di", "From Bo"]);
  assert.equal(await ann.run(() => location.search), `?list=${list}`);
  await ann.shot("live-lists-members");
});

test("a tab that was offline catches up: posts that came, and those that left", async () => {
  const { ann } = scene;
  scene.expected = UNREACHABLE;
  await setOffline(ann, true);
  await state(ann, "lost");
  await post("bo", "Meanwhile");
  await post("di", "Not for long");
  await member("DELETE", "di");
  await post("bo", "And then");
  await setOffline(ann, false);
  await live(ann);
  await shows(ann, ["And then", "Meanwhile", "Lines", "From Bo"]);
  await ann.sees("recovered", "Connection lost");
  await ann.shot("live-lists-recovered");
});

test("a list that is deleted in another tab is gone here, with its tab", async () => {
  const { ann } = scene;
  const rest = (await as("ann", "POST", "/lists", { name: "Far" })).id;
  await go(other, `/settings/lists/${list}`);
  await other.click("list-delete");
  await other.click("confirm");
  await other.sees("toast", "The list is deleted.");
  await ann.sees("#view", "There is nothing here");
  await ann.sees("#title", "Not found");
  const tabs = () => ann.texts("[data-testid=list-tab]");
  await ann.until(tabs, (now) => String(now) === "Home,Far", "its tab is gone");
  await ann.shot("live-lists-deleted");
  // A connection that comes back does not ask for it again.
  scene.expected = UNREACHABLE;
  await setOffline(ann, true);
  await state(ann, "lost");
  await setOffline(ann, false);
  await live(ann);
  await go(ann, `/?list=${rest}`);
  await ann.sees("empty", "Nothing is in this list yet");
});

test("a list that is deleted while the tab is offline is gone when it is back", async () => {
  const { ann } = scene;
  const [{ id }] = (await as("ann", "GET", "/lists")).items;
  scene.expected = UNREACHABLE;
  await setOffline(ann, true);
  await state(ann, "lost");
  await as("ann", "DELETE", `/lists/${id}`);
  await setOffline(ann, false);
  await live(ann);
  await ann.sees("#view", "There is nothing here");
});
