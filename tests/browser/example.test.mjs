// The example of docs/example/, built with Vite and the packed client module, in Chromium.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { cp } from "node:fs/promises";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { install, run, tool, withFolder } from "../support/package.mjs";
import { freePort, Server } from "../support/server.mjs";
import { someone } from "../support/setup.mjs";
import { Driver } from "./driver.mjs";

const EXAMPLE = fileURLToPath(new URL("../../docs/example/", import.meta.url));
const PACKAGES = ["react", "react-dom", "@types/react", "@types/react-dom"];
const isOwn = (path) => !/\/(node_modules|dist)$/.test(path);

const folder = withFolder();
let server, driver, browser, preview;
before(async () => {
  server = await Server.start();
  driver = await Driver.start();
  browser = await driver.browser();
});
after(async () => {
  preview?.kill();
  await browser?.close();
  await driver?.stop();
  await server?.stop();
});

test("the example compiles, is built, and shows a live timeline", async () => {
  const options = { cwd: folder.path, env: { ...process.env, FEEDLINE: server.origin } };
  await cp(EXAMPLE, folder.path, { recursive: true, filter: isOwn });
  await install(folder.path, ...PACKAGES);
  await run(tool("tsc"), [], options).catch(({ stdout }) => assert.fail(stdout));
  await run(tool("vite"), ["build", "--logLevel", "error"], options);
  const port = await freePort();
  const serve = ["preview", "--host", "127.0.0.1", "--port", String(port), "--strictPort"];
  preview = spawn(tool("vite"), serve, { ...options, stdio: "ignore" });
  const origin = `http://127.0.0.1:${port}`;
  await browser.until(() => fetch(origin).catch(() => null), (answer) => answer?.ok, "the example is served");

  const [ann, bo] = [someone("ann"), someone("bo")];
  await server.meet(ann, bo);
  await server.follow(ann, bo);
  const post = await server.post(bo, "before");
  await browser.open(`${origin}/#${ann}:${server.token(ann)}`);
  await browser.sees("main article", `${bo} before`);
  await browser.sees("[role=status]", "live");
  await server.post(bo, "live");
  await browser.sees("main article", `${bo} live`);
  await browser.type("[name=text]", "from React");
  await browser.click("form button");
  await browser.sees("main article", `${ann} from React`);
  await browser.click("main article:last-child button");
  await browser.sees("main article:last-child button", "Like 1");
  const isLiked = async () => (await server.done(ann, "GET", `/posts/${post.id}`)).liked;
  await browser.until(isLiked, Boolean, "the like is stored");
  assert.equal((await browser.texts("main article")).length, 3);
  assert.deepEqual(await browser.complaints(), []);
});
