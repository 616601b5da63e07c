// Settings: the session, the devices of pushes, the rules of fields, and the password before an account is deleted.

import assert from "node:assert/strict";
import { test } from "node:test";

import { go, PASSWORD, stage } from "./people.mjs";

const scene = stage({ people: { ann: "Ann Arbor", bo: "Bo Diddley" } });

const fill = async (browser, name, text) => {
  await browser.sees(name, "");
  await browser.run((id) => (document.querySelector(`[data-testid=${id}]`).value = ""), name);
  if (text) await browser.type(name, text);
};

test("the settings say whose session it is, and until when", async () => {
  const { ann } = scene;
  await go(ann, "/settings");
  const { token } = JSON.parse(await ann.run(() => localStorage.getItem("feedline.session")));
  const { iat, exp } = JSON.parse(Buffer.from(token.split(".")[1], "base64url"));
  const day = (seconds) => new Date(seconds * 1000).toLocaleDateString("en", { dateStyle: "medium" });
  await ann.sees(".settings", `Signed in as @ann since ${day(iat)}, until ${day(exp)} at the latest.`);
  await ann.sees(".settings", "The server has no list of your other sessions, and can end all of them.");
});

test("a new name is at once in the letters of the picture beside the form of a post", async () => {
  const { ann } = scene;
  const letters = () => ann.run(() => document.querySelector(".home > .compose > .avatar").dataset.initials);
  await go(ann, "/");
  assert.equal(await letters(), "AA");
  await go(ann, "/settings");
  await fill(ann, "settings-name", "Ann Zeeland");
  await ann.click("save-profile");
  await ann.sees("save-profile-done", "Saved.");
  await go(ann, "/");
  assert.equal(await letters(), "AZ");
});

test("a server without push says so, and asks for no preferences", async () => {
  const { ann } = scene;
  await go(ann, "/settings");
  await ann.sees("push-settings", "This server does not push to browsers.");
  assert.equal(await ann.run(() => document.querySelector("[data-testid=open-push]")), null);
  await go(ann, "/settings/push");
  await ann.sees("push-state", "This server does not push to browsers.");
  const visible = () => [...document.querySelectorAll(".settings h2")].filter((one) => one.checkVisibility());
  const shown = () => ann.run(visible);
  assert.equal((await shown()).length, 1);
});

test("a new password that breaks the rule is not sent, and the rule is there before", async () => {
  const { ann } = scene;
  await go(ann, "/settings");
  await ann.sees("label[for=settings-new]", "8 to 200 characters.");
  await fill(ann, "settings-old", PASSWORD);
  await fill(ann, "settings-new", "short");
  await ann.click("save-password");
  await ann.sees(".settings .error", "8 to 200 characters.");
  await fill(ann, "settings-avatar", "ftp://example.org/a.png");
  await ann.click("save-profile");
  await ann.sees(".settings .error", "Enter an address that begins with https://");
});

test("the form of a new account has its rules below its fields, in the reader's language", async () => {
  const { server, driver } = scene;
  const browser = await driver.browser();
  try {
    await browser.open(`${server.origin}/sign-up`);
    await browser.sees("gate-submit", "Create an account");
    const described = (name) =>
      browser.run((id) => {
        const field = document.querySelector(`[data-testid=${id}]`);
        const texts = field.getAttribute("aria-describedby").split(" ").map((one) => document.getElementById(one));
        return texts.map((one) => one.textContent).join("");
      }, name);
    assert.match(await described("user"), /1 to 64 letters, digits/);
    assert.match(await described("password"), /^8 to 200 characters\.$/);
    const isBelow = (name) =>
      browser.run((id) => {
        const field = document.querySelector(`[data-testid=${id}]`);
        const rule = document.getElementById(field.getAttribute("aria-describedby").split(" ")[0]);
        return rule.getBoundingClientRect().top >= field.getBoundingClientRect().bottom;
      }, name);
    assert.deepEqual([await isBelow("user"), await isBelow("password")], [true, true]);
    await browser.type("user", "cy");
    await browser.type("password", "short");
    await browser.click("choose-zh");
    await browser.sees("gate-submit", "注册");
    await browser.click("gate-submit");
    await browser.sees("password-error", "8 到 200 个字符。");
    await fill(browser, "user", "...");
    await browser.click("gate-submit");
    await browser.sees("user-error", "只能");
  } finally {
    await browser.close();
  }
});

test("an account is deleted with its password only", async () => {
  const { server, bo } = scene;
  scene.expected = ["the server responded with a status of 401"];
  await go(bo, "/settings");
  await bo.click("delete-account");
  await bo.sees("delete-password", "");
  assert.equal(await bo.run(() => document.activeElement.dataset.testid), "delete-password");
  await bo.click("confirm");
  await bo.sees("confirm-error", "Enter your current password.");
  await bo.type("delete-password", "not my password");
  await bo.click("confirm");
  await bo.sees("confirm-error", "The password is wrong.");
  assert.equal((await server.callAs("ann", "GET", "/users/bo")).id, "bo", "nothing was deleted");
  await fill(bo, "delete-password", PASSWORD);
  await bo.click("confirm");
  await bo.sees("gate-error", "Your account is deleted.");
  const { status } = await fetch(`${server.origin}/api/v1/sessions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ user: "bo", password: PASSWORD }),
  });
  assert.equal(status, 401, "the account is gone");
});
