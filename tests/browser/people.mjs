// User actions for the tests of the page.

import assert from "node:assert/strict";
import { after, afterEach, before } from "node:test";

import { Server } from "../support/server.mjs";
import { Driver } from "./driver.mjs";

export const PASSWORD = "correct horse battery";
export const LIVE_MS = 2_000;

/**
 * Starts a server and opens a signed-up window for each of `people` (id → name). The returned object is filled in
 * before the first test. After each test the consoles must be empty, except for messages that match `scene.expected`.
 */
export function stage({ people, env, before: prepare, after: tidy }) {
  const scene = { expected: [] };
  const windows = () =>
    Object.keys(people)
      .map((user) => scene[user])
      .filter(Boolean);
  before(async () => {
    scene.server = await Server.start(env);
    scene.driver = await Driver.start();
    await Promise.all(
      Object.entries(people).map(async ([user, name]) => {
        scene[user] = await scene.driver.browser();
        await signUp(scene[user], scene.server.origin, user, name);
      }),
    );
    await prepare?.(scene);
  });
  after(async () => {
    await tidy?.();
    for (const browser of windows()) await browser.close();
    await scene.driver?.stop();
    await scene.server?.stop();
  });
  afterEach(async () => {
    for (const browser of windows()) await quiet(browser, scene.expected);
    scene.expected = [];
  });
  return scene;
}

/** Checks that the console logged only expected messages. */
export async function quiet(browser, expected = []) {
  const complaints = await browser.complaints();
  const rest = complaints.filter((message) => !expected.some((part) => message.includes(part)));
  assert.deepEqual(rest, [], "the console is quiet");
}

/** Takes the network from a window, or gives it back. */
export const setOffline = (browser, offline) =>
  browser.call("POST", "/chromium/network_conditions", {
    network_conditions: { offline, latency: 0, download_throughput: -1, upload_throughput: -1 },
  });

/** Creates an account without a window. */
export async function createAccount(server, user, name) {
  const body = JSON.stringify({ user, name, password: PASSWORD });
  const headers = { "content-type": "application/json" };
  const { status } = await fetch(`${server.origin}/api/v1/accounts`, { method: "POST", headers, body });
  assert.equal(status, 201, `the account ${user}`);
}

/** Signs up on the page of `origin`, and waits until the page is live. */
export async function signUp(browser, origin, user, name) {
  await browser.open(`${origin}/sign-up`);
  await browser.type("user", user);
  await browser.type("name", name);
  await browser.type("password", PASSWORD);
  await browser.click("gate-submit");
  await live(browser);
}

/** Fills in and submits the open form. */
export async function signIn(browser, user, password = PASSWORD) {
  await browser.sees("gate-submit", "");
  await browser.run(() => document.querySelectorAll("form input").forEach((input) => (input.value = "")));
  await browser.type("user", user);
  await browser.type("password", password);
  await browser.click("gate-submit");
}

/** Longer than the longest pause between two attempts to connect. */
const RECONNECT_MS = 25_000;

export const live = (browser) => state(browser, "live", RECONNECT_MS);

/** Waits for a connection state. */
export function state(browser, name, ms) {
  const ask = () => browser.run(() => document.querySelector("[data-testid=connection]")?.dataset.state);
  return browser.until(ask, (now) => now === name, `the connection is ${name}`, ms);
}

/** Navigates to an address inside the page, as a link does. */
export async function go(browser, path) {
  await browser.run((href) => {
    const link = document.createElement("a");
    link.href = href;
    document.getElementById("root").append(link);
    link.click();
    link.remove();
  }, path);
  await browser.until(
    () => browser.run(() => location.pathname + location.search),
    (now) => now === path,
    `at ${path}`,
  );
}

export async function write(browser, text) {
  await browser.type("post-text", text);
  await browser.click("post-submit");
  const left = () => browser.run(() => document.querySelector("[data-testid=post-text]").value);
  await browser.until(left, (now) => now === "", "the form is empty");
}

/** Writes a post that the form takes and the server refuses: its picture is a path of the API. */
export async function writeRefused(browser, text) {
  await browser.click("media-toggle");
  await browser.type("media-url", "/api/openapi.json");
  await browser.click("media-add");
  await browser.sees("media-preview", "");
  await write(browser, text);
}

/** The texts of the displayed posts, in order. */
export const posts = (browser) => browser.texts("[data-testid=post]:not([data-leaving]) [data-testid=post-body]");

export function shows(browser, wanted, ms) {
  const right = (now) => JSON.stringify(now) === JSON.stringify(wanted);
  return browser.until(() => posts(browser), right, `not ${JSON.stringify(wanted)}`, ms);
}

/** The id of the post that shows `text`. */
export async function idOf(browser, text) {
  const ask = () =>
    browser.run((wanted) => {
      const all = [...document.querySelectorAll("[data-testid=post]")];
      return all.find((post) => post.textContent.includes(wanted))?.dataset.id ?? "";
    }, text);
  return browser.until(ask, (id) => id !== "", `an id of ${text}`);
}

/** Deletes the post that shows `text` and confirms the deletion in the menu. */
export async function remove(browser, text) {
  const id = await idOf(browser, text);
  await browser.click(`[data-id="${id}"] [data-testid=more]`);
  await browser.click("delete");
  await browser.click("delete");
}

/** Finds a user by search, and follows or unfollows them. */
export async function follow(browser, user) {
  await browser.click("nav-explore");
  await browser.type("search", `${user}\n`);
  await browser.click(`[data-testid=found] [data-user="${user}"] a`);
  await browser.click("[data-testid=profile] [data-testid=follow]");
}
