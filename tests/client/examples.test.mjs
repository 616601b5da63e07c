// The examples of docs/clients.md and README.md, over a restart of the server.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFile, rm, writeFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { Server } from "../support/server.mjs";
import { someone } from "../support/setup.mjs";
import { poll } from "../support/wait.mjs";

/** The pages with the example in both forms: what it prints of a post, and what it posts itself. */
const PAGES = {
  "docs/clients.md": {
    names: ["the client module", "the official SDK"],
    shows: () => (author, text) => `${author}: ${text}`,
    posts: "Posted by",
  },
  "README.md": {
    names: ["the official SDK", "the client module"],
    // This example of the SDK prints events as they are, and reads no page again after a restart.
    shows: (name) => (author, text) => (name.includes("SDK") ? text : `${author}: ${text}`),
    isLive: { "the official SDK": (said) => said.split("connected\n").length > 2 },
  },
};
const ROOT = new URL("../../", import.meta.url);
const MODULE = new URL("web/feedline/index.js", ROOT);

let server;
const examples = {};
before(async () => {
  server = await Server.start();
  for (const page of Object.keys(PAGES)) {
    const text = await readFile(new URL(page, ROOT), "utf8");
    examples[page] = [...text.matchAll(/```js\n(.*?)```/gs)].map(([, code]) => code);
  }
});
after(() => server?.stop());

const EXAMPLES = Object.entries(PAGES).flatMap(([page, { names, ...rest }]) =>
  names.map((name, at) => [page, name, at, rest]),
);

for (const [page, name, at, { shows, posts, isLive = {} }] of EXAMPLES) {
  test(`the example of ${page} with ${name} shows posts, also after a restart`, async () => {
    const [ann, bo] = [someone("ann"), someone("bo")];
    await server.meet(ann, bo);
    await server.follow(ann, bo);
    await server.post(bo, "written before");
    const example = examples[page][at];
    assert.ok(example.split("\n").length <= 32, "about 30 lines");
    const code = example
      .replace("ws://127.0.0.1:8000/connection/websocket", server.socketUrl)
      .replaceAll(/"(timeline:)?ann"/g, `"$1${ann}"`)
      .replace('"feedline-client"', JSON.stringify(MODULE));
    // The file is next to the tests, so that it finds their packages.
    const file = fileURLToPath(new URL(`example-${process.pid}-${at}.mjs`, import.meta.url));
    await writeFile(file, code);
    const env = { PATH: process.env.PATH, TOKEN: server.token(ann) };
    const program = spawn(process.execPath, [file], { env, stdio: ["ignore", "pipe", "inherit"] });
    let said = "";
    program.stdout.setEncoding("utf8").on("data", (text) => (said += text));
    const hears = (text) => poll(10_000, () => said.includes(text), () => `no ${text} in ${said}`);
    const show = shows(name);
    try {
      await hears(show(bo, "written before"));
      if (posts) await hears(`${ann}: ${posts}`);
      await server.kill();
      await server.restart();
      if (isLive[name]) await poll(10_000, () => isLive[name](said), () => `not live in ${said}`);
      await server.post(bo, "written after");
      await hears(show(bo, "written after"));
    } finally {
      program.kill();
      await rm(file, { force: true });
    }
  });
}
