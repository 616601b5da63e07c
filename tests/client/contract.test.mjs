// The types that the client is checked with, and the npm package built from it.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { promisify } from "node:util";

import openapiTS, { astToString } from "openapi-typescript";

import { Server } from "../support/server.mjs";

const run = promisify(execFile);
const MODULE = fileURLToPath(new URL("../../web/feedline/", import.meta.url));
const TOOLS = fileURLToPath(new URL("../node_modules/.bin", import.meta.url));

let directory;
before(async () => {
  directory = await mkdtemp(path.join(tmpdir(), "feedline-package-"));
});
after(() => rm(directory, { recursive: true, force: true }));

/** The document without descriptions: rewording a description changes no type. */
function shapeOf(value) {
  if (Array.isArray(value)) return value.map(shapeOf);
  if (value === null || typeof value !== "object") return value;
  const members = Object.entries(value).filter(([key, member]) => key !== "description" || typeof member !== "string");
  return Object.fromEntries(members.map(([key, member]) => [key, shapeOf(member)]));
}

test("api.d.ts matches the server's contract; FEEDLINE_BLESS=1 writes it", async () => {
  const server = await Server.start();
  try {
    const document = await (await fetch(`${server.origin}/api/openapi.json`)).json();
    const types = astToString(await openapiTS(shapeOf(document), { defaultNonNullable: false }))
      // The tool leaves headers that are not described open. They are texts, or numbers like those that are described.
      .replaceAll("[name: string]: unknown;", "[name: string]: string | number | undefined;");
    const file = path.join(MODULE, "api.d.ts");
    const generated = `// Generated from /api/openapi.json: FEEDLINE_BLESS=1 make client\n\n${types}`;
    if (process.env.FEEDLINE_BLESS) await writeFile(file, generated);
    assert.equal(await readFile(file, "utf8"), generated, "run FEEDLINE_BLESS=1 make client");
  } finally {
    await server.stop();
  }
});

test("the packed module can be imported, and has types for others", async () => {
  const source = path.join(directory, "source");
  await cp(MODULE, source, { recursive: true });
  const env = { ...process.env, PATH: `${TOOLS}${path.delimiter}${process.env.PATH}` };
  // npm inherits the tests' own .npmrc, which disables scripts; here the package's script must generate its
  // declarations.
  const options = ["--json", "--ignore-scripts=false", "--pack-destination", directory];
  const { stdout } = await run("npm", ["pack", ...options], { cwd: source, env });
  const [packed] = JSON.parse(stdout.slice(stdout.indexOf("[\n")));
  const wanted = /^(README\.md|package\.json|[a-z]+\.js|(types\/)?[a-z]+\.d\.ts)$/;
  assert.deepEqual(packed.files.map(({ path: name }) => name).filter((name) => !wanted.test(name)), []);
  await run("tar", ["xzf", path.join(directory, packed.filename), "-C", directory]);
  const installed = path.join(directory, "node_modules/feedline-client");
  await cp(path.join(directory, "package"), installed, { recursive: true });
  const module = await import(pathToFileURL(path.join(installed, "index.js")));
  const { Feedline, Connection, FeedlineError, webSocket } = module;
  const feedline = new Feedline({ url: "ws://127.0.0.1:1/", user: "ann", token: "t", transport: webSocket(class {}) });
  assert.ok(feedline.connection instanceof Connection && FeedlineError && feedline.timeline.entries.length === 0);

  const usage = `
    import { Feedline } from "feedline-client";
    const feedline = new Feedline({ url: "/connection/websocket", user: "ann", token: "t" });
    const text: string[] = feedline.timeline.entries.map(({ post }) => post.text);
    feedline.connection.on("state", (state) => state.name === "lost" && state.retryAt?.toFixed());
    feedline.connection.subscribe(\`post:\${1}\`, {
      publication: ({ data }) => data.type === "counts" && data.version.toFixed(),
    });
    // @ts-expect-error: not an event of this channel
    feedline.connection.subscribe("post:1", { publication: ({ data }) => data.type === "read" });
    feedline.connection.subscribe("chat:1", { publication: ({ data }) => data.anything });
    feedline.timeline.post({ text: "hello", visibility: { only_to: ["bo"] } });
    // @ts-expect-error: not a state
    feedline.connection.on("state", (state) => state.name === "sleeping");
    // @ts-expect-error: not a visibility
    feedline.timeline.post({ text: text[0], visibility: "nobody" });`;
  await writeFile(path.join(directory, "usage.mts"), usage);
  const strictly = ["--strict", "--noEmit", "--module", "nodenext", "--target", "es2022"];
  const checked = run(path.join(TOOLS, "tsc"), [...strictly, "usage.mts"], { cwd: directory });
  await checked.catch((error) => assert.fail(error.stdout));
});
