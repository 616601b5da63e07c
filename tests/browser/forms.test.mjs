// Dialogs, forms and drafts: Back closes what lies above a view, nothing that is written is lost, errors are in the
// reader's language, and what was done in a list is shown in it.

import assert from "node:assert/strict";
import { test } from "node:test";

import { PHONE } from "./inspect.mjs";
import { go, idOf, live, LIVE_MS, setOffline, shows, stage, state, write, writeRefused } from "./people.mjs";

const scene = stage({ people: { ann: "Ann Arbor", bo: "Bo Diddley" } });

const path = (browser) => browser.run(() => location.pathname);
const dialogs = (browser) => browser.run(() => document.querySelectorAll("dialog").length);
const closes = (browser) => browser.until(() => dialogs(browser), (now) => now === 0, "no dialog");
const back = (browser) => browser.run(() => history.back());
const is = (browser, wanted) => browser.until(() => path(browser), (now) => now === wanted, `at ${wanted}`);

test("Back closes a dialog, and not the view below it", async () => {
  const { ann } = scene;
  await go(ann, "/topics");
  await ann.emulate(PHONE);
  const place = "[data-testid=compose-dialog] [data-testid=post-text]";
  await ann.click("fab");
  await ann.type(place, "half a post");
  await back(ann);
  await closes(ann);
  assert.equal(await path(ann), "/topics");
  await ann.click("fab");
  assert.equal(await ann.run((name) => document.querySelector(name).value, place), "half a post", "it is kept");
  // Closed by its button, it leaves no entry behind.
  await ann.click("dialog [aria-label=Close]");
  await closes(ann);
  await back(ann);
  await is(ann, "/");
  await ann.run(() => history.forward());
  await is(ann, "/topics");
  assert.equal(await dialogs(ann), 0);
});

test("a link in a dialog closes it, and Back leads to the view below", async () => {
  const { server, ann } = scene;
  const { id } = await server.postOf("bo", "Liked by its author");
  await server.callAs("bo", "PUT", `/posts/${id}/like`);
  await go(ann, `/post/${id}`);
  await ann.click("[data-testid=thread] [data-testid=more]");
  await ann.click("likers");
  await ann.click("[data-testid=people-dialog] a");
  await is(ann, "/user/bo");
  await closes(ann);
  await back(ann);
  await is(ann, `/post/${id}`);
  assert.equal(await dialogs(ann), 0);
  await ann.emulate({ width: 1240, height: 900 });
});

test("a post that is put back does not replace what is being written", async () => {
  const { ann } = scene;
  await ann.click("nav-home");
  const refused = "with a picture that is none";
  await writeRefused(ann, refused);
  await ann.sees("[data-testid=post][data-pending=failed]", "This was not posted");
  const wouldAsk = () =>
    ann.run(() => !dispatchEvent(new Event("beforeunload", { cancelable: true })));
  assert.equal(await wouldAsk(), true, "the tab asks before it closes");
  await ann.type("post-text", "something else");
  await ann.click("put-back");
  await ann.sees("toast", "Post or clear what you are writing first.");
  const value = () => ann.run(() => document.querySelector("[data-testid=post-text]").value);
  assert.equal(await value(), "something else");
  await ann.click("post-submit");
  await ann.until(value, (now) => now === "", "sent");
  await ann.click("put-back");
  assert.equal(await value(), refused);
  await ann.click("[data-testid=media-preview] .icon-button");
  await ann.run(() => {
    const field = document.querySelector("[data-testid=post-text]");
    field.value = "";
    field.dispatchEvent(new Event("input"));
  });
  await shows(ann, ["something else"], LIVE_MS);
  assert.equal(await wouldAsk(), false);
});

test("a picture can be a path of the same server", async () => {
  const { ann } = scene;
  await ann.click("media-toggle");
  await ann.type("media-url", "//elsewhere.example/a.svg");
  await ann.click("media-add");
  await ann.sees("compose", "Enter an address that begins with https://");
  await ann.run(() => document.querySelector("[data-testid=media-url]").select());
  await ann.type("media-url", "/icon.svg");
  await ann.click("media-add");
  await ann.sees("media-preview", "");
  await ann.type("post-text", "with a picture");
  await ann.click("post-submit");
  const source = () => ann.run(() => document.querySelector("[data-testid=post] img:not(.avatar img)")?.src ?? "");
  await ann.until(source, (now) => now.endsWith("/icon.svg"), "the picture");
});

test("an edit is shown in the list where it was made", async () => {
  const { ann } = scene;
  const id = await idOf(ann, "something else");
  await ann.click(`[data-id="${id}"] [data-testid=favourite]`);
  for (const view of ["/explore", "/favourites"]) {
    await go(ann, view);
    await ann.click(`[data-id="${id}"] [data-testid=more]`);
    await ann.click("edit");
    await ann.run(() => document.querySelector("[data-testid=edit-text]").select());
    await ann.type("edit-text", `edited in ${view}`);
    await ann.click("edit-submit");
    await closes(ann);
    await ann.sees(`[data-id="${id}"] [data-testid=post-body]`, `edited in ${view}`, LIVE_MS);
  }
});

test("times are right when a view is shown again", async () => {
  const { ann } = scene;
  await go(ann, "/explore");
  await ann.sees("post-body", "with a picture");
  await go(ann, "/topics");
  await back(ann);
  await is(ann, "/explore");
  // As if hours had passed since the post.
  const set = () =>
    ann.run(() => {
      const time = document.querySelector("[data-testid=post] time");
      time.dataset.ago = String(Date.now() - 3 * 3_600_000);
      return time.textContent;
    });
  assert.equal(await set(), "now");
  await go(ann, "/topics");
  await back(ann);
  await ann.sees("[data-testid=post] time", "3 h");
});

test("errors are in the reader's language", async () => {
  const { ann } = scene;
  scene.expected = ["the server responded with a status of"];
  await go(ann, "/settings");
  await ann.click("choose-zh");
  await ann.sees("nav-home", "首页");
  await ann.type("settings-old", "not my password");
  await ann.type("settings-new", "another correct horse");
  await ann.click("save-password");
  const errors = () => ann.texts(".settings .error");
  const [error] = (await ann.until(errors, (now) => now.some(Boolean), "an error")).filter(Boolean);
  assert.doesNotMatch(error, /[A-Za-z]/);
  await ann.click("nav-home");
  await writeRefused(ann, "with a picture that is none");
  await ann.sees("[data-testid=post][data-pending=failed] .notice", "没有发出去");
  assert.doesNotMatch((await ann.texts("[data-testid=post][data-pending=failed] .notice span"))[0], /[A-Za-z]/);
  await ann.click("put-back");
  await go(ann, "/settings");
  await ann.click("choose-en");
  await ann.sees("nav-home", "Home");
});

test("a connection that is too slow says so", async () => {
  const { server, ann } = scene;
  await ann.run(() => {
    window.words = [];
    const word = document.querySelector("[data-testid=connection-text]");
    new MutationObserver(() => window.words.push(word.textContent)).observe(word, { childList: true });
  });
  const disconnect = { user: "ann", disconnect: { code: 3008, reason: "slow" } };
  const { body } = await server.backend("disconnect", disconnect);
  assert.deepEqual(body.error, undefined);
  await ann.until(() => ann.run(() => window.words), (words) => words.includes("Slow"), "the word");
  await live(ann);
});

test("without a network the page says that one is offline", async () => {
  const { ann } = scene;
  scene.expected = ["WebSocket connection to", "ERR_INTERNET_DISCONNECTED"];
  await setOffline(ann, true);
  await state(ann, "lost");
  await ann.sees("connection-text", "Offline");
  await ann.sees("line-note", "You are offline. What you write is kept and sent when you are back.");
  await setOffline(ann, false);
  await live(ann);
});

test("nothing moves under reduced motion", async () => {
  const { server, bo, ann } = scene;
  await server.callAs("ann", "PUT", "/users/bo/follow");
  await ann.click("nav-home");
  const moving = () => ann.run(() => window.moving);
  const watch = () =>
    ann.run(() => {
      window.moving = 0;
      const look = () => {
        window.moving += document.getAnimations().length;
        requestAnimationFrame(look);
      };
      look();
    });
  // The window of a test has reduced motion once it is emulated: the other has not.
  await watch();
  await write(bo, "arrives without motion");
  await ann.sees("post-body", "arrives without motion", LIVE_MS);
  await ann.click(`[data-id="${await idOf(ann, "arrives without motion")}"] [data-testid=like]`);
  assert.equal(await moving(), 0);
});

test("the policy of the page forbids inline script, other origins, and markup from text", async () => {
  const { server, ann } = scene;
  const { headers } = await fetch(`${server.origin}/`);
  const policy = headers.get("content-security-policy");
  for (const part of [
    "default-src 'none'",
    "script-src 'self'",
    "img-src 'self' https:",
    "media-src 'self' https:",
    "require-trusted-types-for 'script'",
  ]) {
    assert.ok(policy.includes(part), `${part} in ${policy}`);
  }
  assert.doesNotMatch(policy, /unsafe-inline|unsafe-eval/);
  assert.equal(headers.get("referrer-policy"), "no-referrer");
  scene.expected = ["This document requires", "Refused to execute inline script", "Content Security Policy"];
  const tried = await ann.run(() => {
    try {
      document.createElement("div").innerHTML = "<b>text</b>";
      return "markup";
    } catch (error) {
      return error.name;
    }
  });
  assert.equal(tried, "TypeError");
  const clicked = await ann.run(() => {
    const element = document.createElement("div");
    try {
      element.setAttribute("onclick", "window.ran = true");
    } catch {
      // Trusted Types refuse it already.
    }
    element.click();
    return window.ran ?? false;
  });
  assert.equal(clicked, false);
});

test("on a phone the avatar opens the account: settings, favourites, signing out", async () => {
  const { bo } = scene;
  await bo.emulate(PHONE);
  await go(bo, "/");
  for (const [label, wanted] of [["Favourites", "/favourites"], ["Settings", "/settings"], ["Profile", "/user/bo"]]) {
    await bo.click("head-me");
    const items = await bo.texts("[role=menu] [role=menuitem]");
    assert.ok(items.includes(label) && items.includes("Sign out"), String(items));
    await bo.click(`[role=menu] :nth-child(${items.indexOf(label) + 1})`);
    await is(bo, wanted);
  }
});
