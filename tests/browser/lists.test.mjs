// Lists: tabs beside Home, the posts of a list, what is in it, and boxes on profiles and topics.

import assert from "node:assert/strict";
import { test } from "node:test";

import { DESKTOP, fits, inspect, PHONE } from "./inspect.mjs";
import { createAccount, go, live, posts, setOffline, shows, signIn, stage, state } from "./people.mjs";

const ENTER = "\uE007";
const ESCAPE = "\uE00C";
const SPACE = "\uE00D";
const UNREACHABLE = ["WebSocket connection to", "ERR_INTERNET_DISCONNECTED"];
const as = (user, method, path, body) => scene.server.callAs(user, method, path, body);

const scene = stage({
  people: { ann: "Ann Arbor" },
  before: async ({ server }) => {
    for (const [id, name] of [["bo", "Bo Diddley"], ["cy", "Cy Twombly"]]) await createAccount(server, id, name);
    await as("ann", "PUT", "/users/bo/follow");
  },
});

const post = async (user, text) => (await as(user, "POST", "/posts", { text })).id;
const lists = async () => (await as("ann", "GET", "/lists")).items;
const make = async (name, members = [], more = {}) => {
  const { id } = await as("ann", "POST", "/lists", { name, ...more });
  for (const member of members) await as("ann", "PUT", `/lists/${id}/${member}`);
  return id;
};
const forget = async () => {
  for (const { id } of await lists()) await as("ann", "DELETE", `/lists/${id}`);
};
const members = async (id) => {
  const { items, topics } = await as("ann", "GET", `/lists/${id}/members`);
  return [...items.map((user) => user.id), ...topics.map((name) => `#${name}`)];
};
const membersAre = (id, wanted) =>
  scene.ann.until(() => members(id), (now) => String(now) === String(wanted), `members ${wanted}`);
const TABS = "[data-testid=list-tab]";
const tabs = (browser) => browser.texts(`.list-tabs:not([hidden]) ${TABS}`);
const tabsAre = (browser, wanted) =>
  browser.until(() => tabs(browser), (now) => String(now) === String(wanted), `tabs ${wanted}`);
const current = (browser) => browser.texts(`${TABS}[aria-current=page]`);
const title = (browser, wanted) => browser.sees("#title", wanted);
const address = (browser) => browser.run(() => location.pathname + location.search);
const back = (browser) => browser.run(() => history.back());
const choose = (browser, id) => browser.click(`${TABS}[href$="?list=${id}"]`);
const focused = (browser) =>
  browser.run(() => document.activeElement.id || document.activeElement.getAttribute("aria-label"));
const set = (browser, name, text) =>
  browser.run((id, wanted) => void (document.querySelector(`[data-testid=${id}]`).value = wanted), name, text);
const value = (browser, name) => browser.run((id) => document.querySelector(`[data-testid=${id}]`).value, name);
/** Opens a view anew. */
const visit = async (browser, path) => {
  await go(browser, "/explore");
  await go(browser, path);
};

test("without lists Home has no tabs; a list is made, filled with people and topics, and read", async () => {
  const { ann } = scene;
  await post("bo", "From Bo");
  await post("cy", "Cy on #moss");
  await post("cy", "Cy on tea");
  await shows(ann, ["From Bo"]);
  assert.deepEqual(await tabs(ann), []);
  await ann.click("me");
  await ann.click("account-lists");
  await title(ann, "Lists");
  await ann.sees("lists", "No lists yet");
  await ann.click("list-submit");
  await ann.sees("list-error", "Enter a name.");
  assert.equal(await focused(ann), "list-name");
  await set(ann, "list-name", "é".repeat(51));
  await ann.click("list-submit");
  await ann.sees("list-error", "A name has at most 50 characters.");
  await set(ann, "list-name", "");
  await ann.type("list-name", "  Gardens ");
  await ann.click("list-submit");
  await title(ann, "Gardens");
  const [{ id, exclusive }] = await lists();
  assert.equal(exclusive, false);
  assert.equal(await address(ann), `/settings/lists/${id}`);
  await ann.sees("list-people", "No people yet");
  await ann.sees("list-topics", "No topics yet");
  for (const wrong of ["", "two words", "123", "a".repeat(101)]) {
    await set(ann, "list-topic", wrong);
    await ann.click("list-topic-add");
    await ann.sees("list-topic-error", "Enter one word that has a letter");
    assert.equal(await value(ann, "list-topic"), wrong, "what was written stays");
    assert.equal(await focused(ann), "list-topic");
    await set(ann, "list-topic", "x");
    await ann.run(() => (document.querySelector("[data-testid=list-topic-error]").textContent = ""));
  }
  await set(ann, "list-topic", "");
  await ann.type("list-topic", "#Moss\n");
  await ann.sees("list-topic-row", "#moss");
  assert.equal(await value(ann, "list-topic"), "");
  await ann.click("list-add-people");
  await ann.type("picker-name", "Bo");
  await ann.click("[data-testid=picker] [data-user=bo] input");
  await ann.click("picker-done");
  await ann.sees("list-people", "Bo Diddley");
  await membersAre(id, ["bo", "#moss"]);
  await ann.click("nav-home");
  await tabsAre(ann, ["Home", "Gardens"]);
  assert.deepEqual(await current(ann), ["Home"]);
  await choose(ann, id);
  await title(ann, "Gardens");
  assert.equal(await address(ann), `/?list=${id}`);
  assert.deepEqual(await current(ann), ["Gardens"]);
  await shows(ann, ["Cy on #moss", "From Bo"]);
  await ann.sees("list-facts", "1 person · 1 topic");
  assert.equal(await ann.run(() => document.querySelector("[data-testid=nav-home]").ariaCurrent), "page");
  assert.equal(await ann.run(() => document.title.includes("Gardens")), true);
});

test("the address names the list: it survives a reload, and Back leads home", async () => {
  const { ann } = scene;
  const [{ id }] = await lists();
  await ann.reload();
  await title(ann, "Gardens");
  await shows(ann, ["Cy on #moss", "From Bo"]);
  await tabsAre(ann, ["Home", "Gardens"]);
  await back(ann);
  await title(ann, "Home");
  await shows(ann, ["From Bo"]);
  assert.deepEqual(await current(ann), ["Home"]);
  await ann.run(() => history.forward());
  await title(ann, "Gardens");
  await shows(ann, ["Cy on #moss", "From Bo"]);
  await ann.click(`${TABS}[href="/"]`);
  await title(ann, "Home");
  assert.equal(await ann.run((of) => document.querySelector(of) !== null, `${TABS}[href$="?list=${id}"]`), true);
});

test("who has lists sees the tabs after a start at once, and nothing moves", async () => {
  const { ann } = scene;
  await go(ann, "/");
  // Nobody touches the page meanwhile.
  await ann.reload();
  const isKept = () => document.querySelector(".list-tabs")?.hidden === false;
  await ann.until(() => ann.run(isKept), Boolean, "their place is kept");
  await tabsAre(ann, ["Home", "Gardens"]);
  await live(ann);
  await ann.run(() => {
    window.shifts = [];
    new PerformanceObserver((list) => window.shifts.push(...list.getEntries().map((entry) => entry.value))).observe({
      type: "layout-shift",
      buffered: true,
    });
  });
  const sum = await ann.run(() => window.shifts.reduce((total, one) => total + one, 0));
  assert.ok(sum <= 0.02, `the page shifted by ${sum}`);
});

test("the posts of a list are live, also while another view is shown", async () => {
  const { ann } = scene;
  const [{ id }] = await lists();
  await choose(ann, id);
  await shows(ann, ["Cy on #moss", "From Bo"]);
  const next = await post("bo", "Once more");
  await post("cy", "Not in the list");
  await shows(ann, ["Once more", "Cy on #moss", "From Bo"]);
  await as("bo", "PATCH", `/posts/${next}`, { text: "Once more, edited" });
  await shows(ann, ["Once more, edited", "Cy on #moss", "From Bo"]);
  await as("cy", "PUT", `/posts/${next}/like`);
  await ann.sees(`[data-id="${next}"] [data-testid=like]`, "1");
  await go(ann, "/explore");
  await post("bo", "While away");
  await as("bo", "DELETE", `/posts/${next}`);
  await back(ann);
  await shows(ann, ["While away", "Cy on #moss", "From Bo"]);
  await post("bo", "And now");
  await shows(ann, ["And now", "While away", "Cy on #moss", "From Bo"]);
});

test("older posts follow without end, and new ones wait for who reads further down", async () => {
  const { ann } = scene;
  await createAccount(scene.server, "di", "Di Prima");
  const id = await make("Long", ["users/di"]);
  for (let n = 1; n <= 45; n += 1) await post("di", `line ${n}\n\n\n.`);
  await visit(ann, `/?list=${id}`);
  await ann.sees("post-body", "line 45");
  await ann.until(
    async () => {
      await ann.run(() => scrollTo(0, document.documentElement.scrollHeight));
      return posts(ann);
    },
    (now) => now.length === 45,
    "all are there",
  );
  await ann.sees(".feed-end", "You have seen it all.");
  const placeOfLast = () =>
    ann.run(() => Math.round([...document.querySelectorAll("[data-testid=post]")].at(-1).getBoundingClientRect().top));
  const at = await placeOfLast();
  await post("di", "line 46");
  await ann.sees("new-posts", "1 new post");
  scene.expected = UNREACHABLE;
  await setOffline(ann, true);
  await state(ann, "lost");
  await post("di", "line 47");
  await setOffline(ann, false);
  await live(ann);
  await ann.sees("new-posts", "2 new posts");
  assert.equal(await placeOfLast(), at, "nothing moved");
  await ann.click("new-posts");
  await ann.sees("post-body", "line 47");
});

test("after a lost connection a list catches up, also while its settings wait for the line", async () => {
  const { ann } = scene;
  const [{ id }] = await lists();
  await visit(ann, `/?list=${id}`);
  await shows(ann, ["And now", "While away", "Cy on #moss", "From Bo"]);
  scene.expected = UNREACHABLE;
  await setOffline(ann, true);
  await state(ann, "lost");
  await post("bo", "Meanwhile");
  await ann.click("list-edit");
  await ann.sees("#view", "The page is waiting for the line");
  await back(ann);
  await setOffline(ann, false);
  await live(ann);
  await shows(ann, ["Meanwhile", "And now", "While away", "Cy on #moss", "From Bo"]);
});

test("an exclusive list takes its people out of Home, and gives them back; a new name is everywhere", async () => {
  const { ann } = scene;
  const [{ id }] = await lists();
  await post("ann", "My own");
  await ann.click("list-edit");
  await ann.sees("list-people", "Bo Diddley");
  await ann.click("list-exclusive");
  await set(ann, "list-name", "Green things");
  await ann.click("list-submit");
  await ann.sees("list-done", "Saved.");
  await title(ann, "Green things");
  assert.deepEqual((await lists())[0].exclusive, true);
  await ann.click("nav-home");
  await tabsAre(ann, ["Home", "Green things", "Long"]);
  await shows(ann, ["My own"]);
  await choose(ann, id);
  await ann.sees("list-facts", "1 person · 1 topic · Left out of Home");
  await shows(ann, ["Meanwhile", "And now", "While away", "Cy on #moss", "From Bo"]);
  await ann.click("list-edit");
  await ann.sees("list-people", "Bo Diddley");
  assert.equal(await ann.run(() => document.querySelector("[data-testid=list-exclusive]").checked), true);
  await ann.click("list-exclusive");
  await ann.click("list-submit");
  await ann.sees("list-done", "Saved.");
  await ann.click("nav-home");
  await shows(ann, ["My own", "Meanwhile", "And now", "While away", "From Bo"]);
});

test("members are taken out, with a way back; the focus goes on", async () => {
  const { ann } = scene;
  const [{ id }] = await lists();
  await as("ann", "PUT", `/lists/${id}/users/cy`);
  await go(ann, `/settings/lists/${id}`);
  const out = (user) => `[data-testid=list-people] [data-user=${user}] [data-testid=list-take-out]`;
  await ann.sees("list-people", "Cy Twombly");
  await ann.run((query) => document.querySelector(query).focus(), out("cy"));
  await ann.press(ENTER);
  await ann.sees("toast", "Cy Twombly is no longer in the list.");
  await membersAre(id, ["bo", "#moss"]);
  assert.equal(await focused(ann), "Remove Bo Diddley");
  await ann.click("undo");
  await ann.sees("list-people", "Cy Twombly");
  await membersAre(id, ["cy", "bo", "#moss"]);
  await ann.click("[data-testid=list-topic-row] button");
  await ann.sees("list-topics", "No topics yet");
  assert.equal(await focused(ann), "list-topic");
  await membersAre(id, ["cy", "bo"]);
  for (const user of ["cy", "bo"]) {
    // The toast is at the lower edge.
    await ann.run((query) => document.querySelector(query).scrollIntoView({ block: "center" }), out(user));
    await ann.click(out(user));
    await membersAre(id, user === "cy" ? ["bo"] : []);
  }
  await ann.sees("list-people", "No people yet");
  await ann.click("nav-home");
  await choose(ann, id);
  await ann.sees("empty", "Nothing is in this list yet");
  await shows(ann, []);
  for (const member of ["users/bo", "topics/moss"]) await as("ann", "PUT", `/lists/${id}/${member}`);
});

test("a profile says which lists have somebody, and puts them in or takes them out", async () => {
  const { ann } = scene;
  const [{ id }, { id: long }] = await lists();
  await visit(ann, "/user/bo");
  const open = async (path) => {
    await ann.click(path);
    await ann.click("add-to-lists");
    await ann.sees("in-lists", "Green things");
  };
  const box = (of) => `#in-list-${of}`;
  const checked = (...ids) =>
    ann.run((all) => all.map((one) => document.querySelector(`#in-list-${one}`).checked), ids);
  await open("relations");
  await ann.sees("[data-testid=in-lists] h2", "Lists with Bo Diddley");
  assert.deepEqual(await checked(id, long), [true, false]);
  await ann.run((query) => document.querySelector(query).focus(), box(long));
  await ann.press(SPACE);
  await ann.sees("in-lists-done", "Added to Long.");
  await membersAre(long, ["bo", "di"]);
  await ann.click(box(id));
  await ann.sees("in-lists-done", "Removed from Green things.");
  await membersAre(id, ["#moss"]);
  await ann.click(box(id));
  await ann.sees("in-lists-done", "Added to Green things.");
  await ann.click("in-lists-create");
  await ann.sees("in-lists-error", "Enter a name.");
  await ann.type("in-lists-name", "Blues\n");
  await ann.sees("in-lists-done", "Added to Blues.");
  const blues = (await lists()).find(({ name }) => name === "Blues").id;
  await membersAre(blues, ["bo"]);
  assert.deepEqual(await checked(id, long, blues), [true, true, true]);
  await ann.press(ESCAPE);
  assert.equal(await ann.run(() => document.activeElement.dataset.testid), "relations");
  await open("relations");
  await ann.until(() => checked(id, long, blues), (now) => String(now) === "true,true,true", "as it was left");
  // Another tab has deleted it meanwhile.
  await as("ann", "DELETE", `/lists/${blues}`);
  await ann.click(box(blues));
  await ann.sees("in-lists-error", "This does not exist, or you can no longer see it.");
  assert.deepEqual(await checked(blues), [true], "it is as before");
  await ann.press(ESCAPE);
});

test("so does the page of a topic", async () => {
  const { ann } = scene;
  const [{ id }, { id: long }] = await lists();
  await go(ann, "/topic/moss");
  await ann.sees("post-body", "Cy on #moss");
  await ann.click("add-to-lists");
  await ann.sees("in-lists", "Lists with #moss");
  await ann.sees("in-lists", "Long");
  assert.equal(await ann.run((of) => document.querySelector(`#in-list-${of}`).checked, id), true);
  await ann.click(`#in-list-${long}`);
  await ann.sees("in-lists-done", "Added to Long.");
  await membersAre(long, ["bo", "di", "#moss"]);
  for (let n = 2; n <= 20; n += 1) await as("ann", "PUT", `/lists/${long}/topics/topic${n}`);
  await ann.press(ESCAPE);
  await post("cy", "Late #another");
  await go(ann, "/topic/another");
  await ann.click("add-to-lists");
  await ann.click(`#in-list-${long}`);
  await ann.sees("in-lists-error", "A list has at most 20 topics.");
  assert.equal(await ann.run((of) => document.querySelector(`#in-list-${of}`).checked, long), false);
  await ann.press(ESCAPE);
});

test("a list is deleted once that was confirmed; what is not there says so", async () => {
  const { ann } = scene;
  const [{ id }] = await lists();
  await go(ann, `/settings/lists/${id}`);
  await ann.click("list-delete");
  await ann.sees("dialog[open]", "Delete Green things");
  await ann.press(ESCAPE);
  assert.equal((await lists()).length, 2);
  await ann.click("list-delete");
  await ann.click("confirm");
  await ann.sees("toast", "The list is deleted.");
  await title(ann, "Lists");
  assert.equal(await address(ann), "/settings/lists");
  assert.deepEqual(await ann.texts("[data-testid=list] .name"), ["Long"]);
  for (const path of [`/?list=${id}`, "/?list=999999", `/settings/lists/${id}`]) {
    await go(ann, path);
    await ann.sees("#view", "There is nothing here");
    await title(ann, "Not found");
  }
  const other = (await as("bo", "POST", "/lists", { name: "Of Bo" })).id;
  await go(ann, `/?list=${other}`);
  await ann.sees("#view", "There is nothing here");
  await tabsAre(ann, ["Home", "Long"]);
  for (let n = 2; n <= 50; n += 1) await make(`List ${n}`);
  await go(ann, "/settings/lists");
  await ann.type("list-name", "One more");
  await ann.click("list-submit");
  await ann.sees("list-error", "You can have at most 50 lists. Delete one first.");
  assert.equal(await value(ann, "list-name"), "One more");
  // The tab of the list that is shown is in sight.
  const last = (await lists()).at(-1).id;
  await go(ann, `/?list=${last}`);
  await tabsAre(ann, ["Home", "Long", ...Array.from({ length: 49 }, (_, n) => `List ${n + 2}`)]);
  const inSight = () => {
    const { left, right } = document.querySelector("[aria-current=page][data-testid=list-tab]").getBoundingClientRect();
    const strip = document.querySelector(".list-tabs").getBoundingClientRect();
    return left >= strip.left && right <= strip.right;
  };
  await ann.until(() => ann.run(inSight), Boolean, "the tab is in sight");
  await forget();
  await go(ann, "/");
  await tabsAre(ann, []);
});

test("the views fit, have no findings, and speak Chinese", async () => {
  const { ann } = scene;
  await forget();
  const id = await make("Gardens and other green things", ["users/bo", "users/cy", "topics/moss"], { exclusive: true });
  await make("Music", ["users/di"]);
  await make("incomprehensibilities".repeat(2));
  const pictures = (name) => inspect(ann, name);
  await visit(ann, "/");
  await ann.sees(TABS, "Music");
  // Also without any post, below the marks of lost connections.
  const [own] = (await as("ann", "GET", "/users/ann/posts")).items;
  await as("ann", "DELETE", `/posts/${own.id}`);
  const inHome = () => ann.texts("[data-testid=posts][aria-label=Home] article");
  await ann.until(inHome, (now) => now.length === 0, "no posts");
  await pictures("lists-home");
  await visit(ann, `/?list=${id}`);
  await ann.sees("post-body", "From Bo");
  await pictures("lists-list");
  await visit(ann, "/settings/lists");
  await ann.sees("lists", "Music");
  await pictures("lists-mine");
  await visit(ann, `/settings/lists/${id}`);
  await ann.sees("list-people", "Bo Diddley");
  await pictures("lists-one");
  await visit(ann, "/topic/moss");
  await ann.sees("post-body", "Cy on #moss");
  await pictures("lists-topic");
  await ann.click("add-to-lists");
  await ann.sees("in-lists", "Music");
  await pictures("lists-dialog");
  await ann.press(ESCAPE);
  await go(ann, "/settings");
  await ann.click("choose-zh");
  await ann.sees("nav-home", "首页");
  await visit(ann, `/?list=${id}`);
  await ann.sees("list-facts", "2 人 · 1 个话题 · 不在首页显示");
  await ann.emulate(PHONE);
  await fits(ann, "chinese");
  await ann.shot("lists-chinese");
  await ann.emulate(DESKTOP);
  await visit(ann, `/settings/lists/${id}`);
  await ann.sees("list-people", "Bo Diddley");
  await ann.shot("lists-chinese-one");
  await go(ann, "/settings");
  await ann.click("choose-en");
  await forget();
});
