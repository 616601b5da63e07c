// Runs the examples of docs/clients.md unchanged.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFile, rm, writeFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { Server } from "../support/server.mjs";
import { someone } from "../support/setup.mjs";
import { poll } from "../support/wait.mjs";

const PAGE = new URL("../../docs/clients.md", import.meta.url);
const MODULE = new URL("../../web/feedline/index.js", import.meta.url);

let server;
let examples;
before(async () => {
  server = await Server.start();
  examples = [...(await readFile(PAGE, "utf8")).matchAll(/```js\n(.*?)```/gs)].map(([, code]) => code);
});
after(() => server?.stop());

for (const [at, name] of ["the client module", "the official SDK"].entries()) {
  test(`the example with ${name} shows posts, also after a restart`, async () => {
    const [ann, bo] = [someone("ann"), someone("bo")];
    await server.meet(ann, bo);
    await server.follow(ann, bo);
    await server.post(bo, "before");
    assert.ok(examples[at].split("\n").length <= 32, "about 30 lines");
    const code = examples[at].replace("ws://127.0.0.1:8000/connection/websocket", server.socketUrl);
    // The file is next to the tests, so that it finds their packages.
    const file = fileURLToPath(new URL(`example-${process.pid}-${at}.mjs`, import.meta.url));
    await writeFile(file, code.replace('"feedline-client"', JSON.stringify(MODULE)));
    const env = { PATH: process.env.PATH, USER: ann, TOKEN: server.token(ann) };
    const example = spawn(process.execPath, [file], { env, stdio: ["ignore", "pipe", "inherit"] });
    let said = "";
    example.stdout.setEncoding("utf8").on("data", (text) => (said += text));
    const hears = (text) => poll(10_000, () => said.includes(text), () => `no ${text} in ${said}`);
    try {
      await hears(`${bo}: before`);
      await hears(`${ann}: Posted by`);
      await server.kill();
      await server.restart();
      await server.post(bo, "after");
      await hears(`${bo}: after`);
    } finally {
      example.kill();
      await rm(file, { force: true });
    }
  });
}
