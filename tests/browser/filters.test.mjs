// Muted words: the form and the list in the settings, what they hide and cover on Home, in threads, in notifications.

import assert from "node:assert/strict";
import { test } from "node:test";

import { DESKTOP, fits, inspect, PHONE } from "./inspect.mjs";
import { createAccount, go, live, shows, signIn, stage } from "./people.mjs";

const ENTER = "\uE007";
const ESCAPE = "\uE00C";
const DAY_MS = 86_400_000;
const as = (user, method, path, body) => scene.server.callAs(user, method, path, body);

/** Another tab of Ann's. */
let second;
const scene = stage({
  people: { ann: "Ann Arbor" },
  before: async ({ server, driver }) => {
    for (const [id, name] of [["bo", "Bo Diddley"], ["cy", "Cy Twombly"]]) await createAccount(server, id, name);
    for (const user of ["bo", "cy"]) await as("ann", "PUT", `/users/${user}/follow`);
    second = await driver.browser();
    await second.open(server.origin);
    await signIn(second, "ann");
    await live(second);
  },
  after: () => second?.close(),
});

const post = async (user, text, more = {}) => (await as(user, "POST", "/posts", { text, ...more })).id;
const comment = async (user, id, text, more = {}) =>
  (await as(user, "POST", `/posts/${id}/comments`, { text, ...more })).id;
const filters = async () => (await as("ann", "GET", "/filters")).items;
const mute = (words, more = {}) => as("ann", "POST", "/filters", { words, ...more });
const unmuteAll = async () => {
  for (const { id } of await filters()) await as("ann", "DELETE", `/filters/${id}`);
};
const until = (browser, ask, what) => browser.until(ask, Boolean, what);
const within = (id, name) => `[data-id="${id}"] [data-testid=${name}]`;
const inComment = (id, name) => `[data-comment="${id}"] > .post-main > [data-testid=${name}]`;
/** Whether an element is there and can be seen. */
const visible = (browser, query) =>
  browser.run((wanted) => document.querySelector(wanted)?.checkVisibility() ?? false, query);
const covered = async (browser, id, text) => {
  await browser.sees(within(id, "filtered"), text);
  for (const name of ["post-body", "like", "comments"]) assert.equal(await visible(browser, within(id, name)), false);
};
const set = (browser, name, value) =>
  browser.run(
    (id, wanted) => {
      const field = document.querySelector(`[data-testid=${id}]`);
      field.value = wanted;
      field.dispatchEvent(new Event("input"));
    },
    name,
    value,
  );
const rows = (browser) =>
  browser.run(() =>
    [...document.querySelectorAll("[data-testid=filter]")].map((row) =>
      [".name", ".meta"].map((part) => row.querySelector(part).textContent),
    ),
  );
const rowsAre = (browser, wanted) =>
  browser.until(() => rows(browser), (now) => JSON.stringify(now) === JSON.stringify(wanted), "the list");
const focused = (browser) => browser.run(() => document.activeElement.id);
/** Opens a view anew. */
const visit = async (browser, path) => {
  await go(browser, path === "/explore" ? "/topics" : "/explore");
  await go(browser, path);
};

test("words that are muted take posts off Home in every tab, and keep new ones away", async () => {
  const { ann } = scene;
  await post("bo", "Rust never sleeps");
  await post("cy", "Tea is ready");
  for (const browser of [ann, second]) await shows(browser, ["Tea is ready", "Rust never sleeps"]);
  await go(ann, "/settings");
  await ann.sees("words-list", "No muted words yet");
  await ann.type("words-text", "Rust, go lang，\n  moss ");
  await ann.click("words-submit");
  await ann.sees("words-done", "Added.");
  await rowsAre(ann, [["Rust, go lang, moss", "Hidden · Everywhere"]]);
  assert.equal(await ann.run(() => document.querySelector("[data-testid=words-text]").value), "", "for the next ones");
  const [filter] = await filters();
  assert.deepEqual(filter.words, ["Rust", "go lang", "moss"]);
  assert.deepEqual([filter.action, filter.in.length, filter.whole_word, filter.until], ["hide", 5, true, undefined]);
  await shows(second, ["Tea is ready"]);
  await go(ann, "/");
  await shows(ann, ["Tea is ready"]);
  await post("bo", "I still like RUST");
  await post("bo", "Rusty gates stay");
  for (const browser of [ann, second]) await shows(browser, ["Rusty gates stay", "Tea is ready"]);
  // An edit may bring a word in, and take it out again.
  const edited = await post("cy", "About gardens");
  await shows(ann, ["About gardens", "Rusty gates stay", "Tea is ready"]);
  await as("cy", "PATCH", `/posts/${edited}`, { text: "About moss" });
  await shows(ann, ["Rusty gates stay", "Tea is ready"]);
});

test("what is collapsed instead says why, and a button shows it", async () => {
  const { ann } = scene;
  await go(second, "/settings");
  await second.click("words-edit");
  await second.sees("words-dialog", "Edit muted words");
  assert.equal(
    await second.run(() => document.querySelector("[data-testid=edit-words-text]").value),
    "Rust, go lang, moss",
  );
  await set(second, "edit-words-action", "warn");
  await set(second, "edit-words-text", "Rust");
  await second.click("edit-words-submit");
  await second.sees("toast", "Saved.");
  await rowsAre(second, [["Rust", "Collapsed behind a button · Everywhere"]]);
  const [{ id: filter }] = await filters();
  assert.equal(await focused(second), `words-edit-${filter}`);
  await until(ann, () => visible(ann, "[data-filtered]"), "what was hidden is back");
  const id = await ann.run(() => document.querySelector("[data-filtered]").dataset.id);
  await covered(ann, id, "Hidden by your muted words: Rust");
  assert.equal(await ann.run((of) => document.querySelectorAll(of).length, "[data-filtered]"), 2);
  // With the keyboard; the focus goes to what is shown.
  await ann.run((query) => document.querySelector(query).focus(), within(id, "show-filtered"));
  await ann.press(ENTER);
  assert.equal(await visible(ann, within(id, "filtered")), false);
  assert.deepEqual(await ann.texts(within(id, "post-body")), ["I still like RUST"]);
  assert.equal(await visible(ann, within(id, "post-body")), true);
  assert.equal(await ann.run(() => document.activeElement.dataset.id), id);
  // It stays so when something else changes.
  await as("cy", "PUT", `/posts/${id}/like`);
  await ann.sees(within(id, "like"), "1");
  assert.equal(await visible(ann, within(id, "post-body")), true);
  const next = await post("bo", "Rust, once more");
  await covered(ann, next, "Hidden by your muted words: Rust");
  await as("bo", "PATCH", `/posts/${next}`, { text: "Nothing, once more" });
  await ann.until(() => visible(ann, within(next, "post-body")), Boolean, "an edit took the word out");
  // The post itself was asked for.
  await as("bo", "PATCH", `/posts/${next}`, { text: "Rust, in the end" });
  await covered(ann, next, "Hidden by your muted words: Rust");
  await ann.click(within(next, "permalink"));
  await ann.sees("[data-testid=thread] [data-testid=post-body]", "Rust, in the end");
  assert.equal(await visible(ann, "[data-testid=thread] [data-testid=filtered]"), false);
  await go(ann, "/");
});

test("a deleted filter brings posts back, and can be made again", async () => {
  const { ann } = scene;
  await go(ann, "/");
  await until(ann, () => visible(ann, "[data-filtered]"), "covered");
  await go(second, "/settings");
  await second.click("words-delete");
  await second.sees("toast", "These words are no longer muted.");
  await second.sees("words-list", "No muted words yet");
  assert.equal(await focused(second), "words-text");
  await until(ann, async () => !(await visible(ann, "[data-filtered]")), "nothing is covered");
  assert.equal(await visible(ann, "[data-testid=posts] [data-testid=post-body]"), true);
  await second.click("undo");
  await rowsAre(second, [["Rust", "Collapsed behind a button · Everywhere"]]);
  await until(ann, () => visible(ann, "[data-filtered]"), "covered again");
  await unmuteAll();
  await second.sees("words-list", "No muted words yet");
});

test("what is not right is said, and nothing is lost", async () => {
  const { ann } = scene;
  await go(ann, "/settings");
  const refused = async (sentence) => {
    await ann.click("words-submit");
    await ann.sees("words-error", sentence);
  };
  await refused("Enter at least one word.");
  assert.equal(await focused(ann), "words-text");
  await set(ann, "words-text", " , ,\n\u200b");
  await refused("Enter at least one word.");
  await set(ann, "words-text", "é".repeat(101));
  await refused("A word or phrase has at most 100 characters.");
  await set(ann, "words-text", Array.from({ length: 51 }, (_, n) => `word${n}`).join(","));
  await refused("At most 50 words together.");
  await set(ann, "words-text", "tea");
  for (const place of ["home", "lists", "topics", "comments", "notifications"]) await ann.click(`words-${place}`);
  await refused("Choose at least one place.");
  assert.equal(await focused(ann), "words-home");
  await ann.click("words-home");
  await ann.click("words-topics");
  await ann.click("words-whole");
  await set(ann, "words-end", "week");
  await ann.click("words-submit");
  await ann.sees("words-done", "Added.");
  const [{ until: end, ...filter }] = await filters();
  assert.deepEqual([filter.in, filter.whole_word], [["home", "topics"], false]);
  assert.ok(Math.abs(end - Date.now() - 7 * DAY_MS) < 60_000, "in a week");
  await ann.sees("filter", "Hidden · Home, Topics and Explore · Also parts of words · Until ");
  const isChecked = () => document.querySelector("[data-testid=words-comments]").checked;
  assert.equal(await ann.run(isChecked), true, "as at first");
  // The end stays unless another one is chosen.
  await ann.click("words-edit");
  await ann.click("edit-words-comments");
  await ann.click("edit-words-submit");
  await ann.sees("filter", "Hidden · Home, Topics and Explore, Comments · Also parts of words · Until ");
  assert.equal((await filters())[0].until, end);
  await ann.click("words-edit");
  await set(ann, "edit-words-end", "never");
  await ann.click("edit-words-submit");
  await until(ann, async () => (await filters())[0].until === undefined, "it does not end");
  await ann.until(() => rows(ann), ([[, facts]]) => !facts.includes("Until"), "the row says so");
  for (let n = 1; n < 20; n += 1) await mute([`word${n}`]);
  await ann.until(() => rows(ann), (now) => now.length === 20, "all are listed");
  await ann.type("words-text", "one more");
  await refused("You can have at most 20 of these. Delete one first.");
  assert.equal(await ann.run(() => document.querySelector("[data-testid=words-text]").value), "one more");
  // The focus stays where a row was.
  const [{ id }, { id: next }] = await filters();
  await ann.click(`#words-delete-${id}`);
  await ann.until(() => rows(ann), (now) => now.length === 19, "one is gone");
  assert.equal(await focused(ann), `words-edit-${next}`);
  await unmuteAll();
  await ann.sees("words-list", "No muted words yet");
});

test("comments with muted words leave a thread or are collapsed, and their replies stay", async () => {
  const { ann } = scene;
  const id = await post("bo", "A thread");
  const one = await comment("cy", id, "I prefer rust");
  const reply = await comment("bo", id, "So do I", { reply_to: one });
  const other = await comment("cy", id, "I prefer tea");
  await go(ann, `/post/${id}`);
  for (const text of ["I prefer rust", "So do I", "I prefer tea"]) await ann.sees("comment-text-shown", text);
  await ann.type("comment-text", "Being written");
  const { id: filter } = await mute(["rust"], { action: "warn", in: ["comments"] });
  await ann.sees(inComment(one, "filtered"), "Hidden by your muted words: rust");
  assert.equal(await visible(ann, inComment(one, "comment-text-shown")), false);
  assert.equal(await visible(ann, inComment(reply, "comment-text-shown")), true);
  assert.equal(await ann.run(() => document.querySelector("[data-testid=comment-text]").value), "Being written");
  const late = await comment("bo", id, "Rust again");
  await ann.sees(inComment(late, "filtered"), "Hidden by your muted words: rust");
  await ann.click(inComment(one, "filtered").concat(" button"));
  assert.equal(await visible(ann, inComment(one, "comment-text-shown")), true);
  assert.equal(await ann.run(() => document.activeElement.dataset.comment), String(one));
  await as("ann", "PATCH", `/filters/${filter}`, { action: "hide" });
  const idsOf = () => [...document.querySelectorAll("[data-comment]")].map((one) => one.dataset.comment);
  const comments = () => ann.run(idsOf);
  await ann.until(comments, (now) => String(now) === String(other), "those with the word are gone");
  await comment("cy", id, "rust rust rust");
  const shown = await comment("cy", id, "Good night");
  await ann.until(comments, (now) => String(now) === `${other},${shown}`, "only the other one came");
  await unmuteAll();
  await ann.until(comments, (now) => now.length >= 5, "all are back");
  await set(ann, "comment-text", "");
  await go(ann, "/");
});

test("notifications do not show what is muted, and a quote does not show what is hidden", async () => {
  const { ann } = scene;
  const mine = await post("ann", "Mine");
  await comment("bo", mine, "A word on turnips");
  await go(ann, "/notifications");
  await ann.sees("notification", "A word on turnips");
  await mute(["turnips"], { action: "warn" });
  await ann.sees("[data-testid=notification] [data-testid=filtered]", "Hidden by your muted words: turnips");
  assert.ok(!(await ann.texts("notification")).some((text) => text.includes("A word on turnips")));
  await unmuteAll();
  await ann.sees("notification", "A word on turnips");
  await mute(["turnips"]);
  await ann.until(
    () => ann.texts("notification"),
    (texts) => !texts.some((text) => text.includes("commented on your post")),
    "it is gone",
  );
  const quoted = await post("cy", "All about turnips");
  const quote = await post("ann", "See here", { quote: quoted });
  await visit(ann, `/post/${quote}`);
  await ann.sees("quote", "This post is not available.");
  await unmuteAll();
});

test("the views fit, have no findings, and speak Chinese", async () => {
  const { ann } = scene;
  await mute(["incomprehensibilities", "moss", "rust", "tea"], { action: "warn" });
  await mute(["#turnips"], { in: ["home", "topics"], whole_word: false, until: Date.now() + DAY_MS });
  await visit(ann, "/settings");
  await ann.sees("filter", "#turnips");
  await inspect(ann, "words-settings");
  const picture = async (name) => {
    for (const [size, ending] of [[DESKTOP, ""], [PHONE, "-phone"]]) {
      await ann.emulate(size);
      await ann.run(() => document.querySelector("[data-testid=words-list]").scrollIntoView({ block: "end" }));
      await ann.shot(`${name}${ending}`);
    }
    await fits(ann, name);
    await ann.run(() => scrollTo(0, 0));
    await ann.emulate(DESKTOP);
  };
  await picture("words");
  await ann.click("words-edit");
  await ann.sees("words-dialog", "Edit muted words");
  await inspect(ann, "words-edit");
  await ann.press(ESCAPE);
  const id = await post("bo", "A cup of tea");
  await comment("cy", id, "Rust on the pot");
  await visit(ann, "/");
  await covered(ann, id, "Hidden by your muted words: teaShow");
  const other = await post("cy", "Rust, moss, incomprehensibilities, tea");
  await covered(ann, other, "Hidden by your muted words: incomprehensibilities, moss, rust…Show");
  await inspect(ann, "words-home");
  await go(ann, `/post/${id}`);
  await ann.sees("[data-testid=comment] [data-testid=filtered]", "Hidden by your muted words");
  await inspect(ann, "words-thread");
  await go(ann, "/settings");
  await ann.click("choose-zh");
  await ann.sees("nav-home", "首页");
  await ann.sees("filter", "折叠");
  await picture("words-chinese");
  await visit(ann, "/");
  await ann.sees(within(id, "filtered"), "已按你的屏蔽词隐藏");
  await go(ann, "/settings");
  await ann.click("choose-en");
  await unmuteAll();
});
