// The page below a path of another host, behind a proxy that keeps the path or removes it.

import assert from "node:assert/strict";
import { createECDH } from "node:crypto";
import { after, before, test } from "node:test";

import { Server } from "../support/server.mjs";
import { Driver } from "./driver.mjs";
import { PathProxy } from "./path-proxy.mjs";
import { createAccount, LIVE_MS, live, quiet, signIn, signUp, write } from "./people.mjs";

const VAPID = createECDH("prime256v1");
VAPID.generateKeys();
const PUSH = {
  FEEDLINE__PUSH__ENABLED: "true",
  FEEDLINE__PUSH__DRY_RUN: "true",
  FEEDLINE__PUSH__VAPID_PRIVATE_KEY: Buffer.concat([Buffer.alloc(32), VAPID.getPrivateKey()])
    .subarray(-32)
    .toString("base64url"),
  FEEDLINE__PUSH__VAPID_SUBJECT: "mailto:ops@example.org",
};

let driver;
before(async () => (driver = await Driver.start()));
after(() => driver?.stop());

/** Runs a test with a server behind a proxy, and a window. */
async function behindProxy({ keeps, env }, run) {
  const server = await Server.start({ ...PUSH, ...env });
  const proxy = await PathProxy.to(server.port, { keeps });
  const browser = await driver.browser();
  try {
    await run({ server, proxy, browser, home: proxy.origin + proxy.base });
  } finally {
    await browser.close();
    proxy.close();
    await server.stop();
  }
}

const at = (browser, path) =>
  browser.until(() => browser.run(() => location.pathname + location.search), (now) => now === path, `at ${path}`);

/** Lets the page subscribe to pushes, without a push service. */
async function allowPush(browser, origin) {
  const cdp = (cmd, params) => browser.call("POST", "/goog/cdp/execute", { cmd, params });
  await cdp("Browser.setPermission", { permission: { name: "notifications" }, setting: "granted", origin });
  const inPage = () => (PushManager.prototype.subscribe = () => Promise.reject(new DOMException("no", "AbortError")));
  await cdp("Page.addScriptToEvaluateOnNewDocument", { source: `(${inPage})()` });
}

for (const [kind, { keeps, env }] of Object.entries({
  "keeps the path": { keeps: true, env: { FEEDLINE__SERVER__BASE_PATH: "/feed" } },
  "removes the path, as configured": { keeps: false, env: { FEEDLINE__SERVER__BASE_PATH: "/feed" } },
  "removes and names the path": { keeps: false, env: { FEEDLINE__SERVER__TRUSTED_PROXIES: "127.0.0.1" } },
})) {
  test(`the page works behind a proxy that ${kind}`, async () => {
    await behindProxy({ keeps, env }, async ({ server, proxy, browser, home }) => {
      await allowPush(browser, proxy.origin);
      await signUp(browser, home, "ann", "Ann Arbor");
      await at(browser, "/feed/");
      const media = [{ type: "image", url: "/demo/sea-2.svg", alt: "the sea" }];
      const { id } = await server.callAs("ann", "POST", "/posts", { text: "It arrives #live", media });
      await browser.sees("post-body", "It arrives", LIVE_MS);
      const width = () => browser.run(() => document.querySelector("[data-testid=post] .media img").naturalWidth);
      await browser.until(width, (now) => now > 0, "the picture is loaded");
      await write(browser, "Written here");
      await browser.click("nav-explore");
      await browser.sees("everybody", "Written here");
      await at(browser, "/feed/explore");
      await browser.click(`[data-id="${id}"] [data-testid=permalink]`);
      await at(browser, `/feed/post/${id}`);
      await browser.reload();
      await live(browser);
      await browser.sees("[data-testid=thread] [data-testid=post-body]", "It arrives");
      await browser.click("[data-testid=thread] .text a");
      await at(browser, "/feed/topic/live");
      await browser.open(`${home}/settings/push`);
      await browser.click("push-turn");
      const scopes = () =>
        browser.run(async () => (await navigator.serviceWorker.getRegistrations()).map(({ scope }) => scope));
      await browser.until(scopes, (now) => now[0] === `${home}/`, "the scope of the worker");
      await browser.click(".brand");
      await at(browser, "/feed/");
      assert.deepEqual(proxy.outside, [], "no request leaves the path");
      for (const path of ["/feed/connection/websocket", "/feed/service-worker.js"]) {
        assert.ok(proxy.inside.includes(path), path);
      }
      await quiet(browser);
    });
  });
}

test("a page of another build is loaded anew", async () => {
  const env = { FEEDLINE__SERVER__BASE_PATH: "/feed" };
  await behindProxy({ keeps: true, env }, async ({ proxy, browser, home }) => {
    await signUp(browser, home, "ann", "Ann Arbor");
    await browser.run(() => (window.isOld = true));
    // Until the page is loaded anew, the server has another second script than the document says.
    let isOther = true;
    proxy.rewrite = (path) => {
      if (["/feed/", "/feed/explore"].includes(path)) isOther = false;
      return isOther ? path.replace(/more\.\w+\.js/, "more.0123456789abcdef.js") : path;
    };
    await browser.click("nav-explore");
    const isNew = () => browser.run(() => !window.isOld);
    await browser.until(isNew, Boolean, "the page is loaded anew", 20_000);
    const scripts = proxy.inside.filter((path) => path.startsWith("/feed/main."));
    assert.equal(scripts.length, 1, "the browser keeps the first script");
    await browser.sees("nav-explore", "");
    // The script may have been wanted before the click went through.
    await browser.click("nav-explore");
    await at(browser, "/feed/explore");
  });
});

test("a view at which one signs in is shown, also when its script comes after the profile", async () => {
  const env = { FEEDLINE__SERVER__BASE_PATH: "/feed" };
  await behindProxy({ keeps: true, env }, async ({ server, proxy, browser, home }) => {
    await createAccount(server, "ann", "Ann Arbor");
    proxy.delayMs = (path) => (path.includes("/more.") ? 3_000 : 0);
    await browser.open(`${home}/user/ann`);
    await signIn(browser, "ann");
    await browser.sees("profile-name", "Ann Arbor");
    await quiet(browser);
  });
});
