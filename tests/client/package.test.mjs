// The npm package: its size, its types, and that others can install it.

import assert from "node:assert/strict";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";

import { build } from "esbuild";

import { declarations, install, MODULE, run, textsOf, tool, withFolder } from "../support/package.mjs";
import { reference } from "../support/reference.mjs";

const MAX_LINES = 1600;
const MAX_BYTES = 11_000;
const TYPES = path.join(MODULE, "types");

const folder = withFolder();

test("the package is small, and depends on nothing", async () => {
  const { dependencies } = JSON.parse(await readFile(path.join(MODULE, "package.json"), "utf8"));
  assert.equal(dependencies, undefined);
  const modules = Object.entries(await textsOf(MODULE)).filter(([name]) => name.endsWith(".js"));
  const lines = modules.flatMap(([, text]) => text.trimEnd().split("\n"));
  assert.deepEqual(lines.filter((line) => line.length > 120), []);
  const all = ["index", "react"].map((name) => `export * from "./${name}.js";`).join("\n");
  const options = { bundle: true, minify: true, format: "esm", external: ["react"], write: false };
  const { outputFiles } = await build({ ...options, stdin: { contents: all, resolveDir: MODULE } });
  const bytes = gzipSync(outputFiles[0].contents, { level: 9 }).length;
  console.log(`${lines.length} lines, ${bytes} bytes`);
  assert.ok(lines.length < MAX_LINES, `${lines.length} lines`);
  assert.ok(bytes < MAX_BYTES, `${bytes} bytes`);
});

test("types/ matches the module; FEEDLINE_BLESS=1 writes it", async () => {
  const emitted = path.join(folder.path, "emitted");
  const made = await declarations(emitted);
  if (process.env.FEEDLINE_BLESS) {
    await rm(TYPES, { recursive: true, force: true });
    await mkdir(TYPES);
    for (const [name, text] of Object.entries(made)) await writeFile(path.join(TYPES, name), text);
  }
  const kept = await textsOf(TYPES);
  assert.deepEqual(Object.keys(kept).sort(), Object.keys(made).sort(), "run FEEDLINE_BLESS=1 make client");
  for (const [name, text] of Object.entries(made)) assert.equal(kept[name], text, `${name}: run make client`);
});

test("docs/client-api.md matches the types; FEEDLINE_BLESS=1 writes it", async () => {
  const file = new URL("../../docs/client-api.md", import.meta.url);
  const text = reference();
  if (process.env.FEEDLINE_BLESS) await writeFile(file, text);
  assert.equal(await readFile(file, "utf8"), text, "run FEEDLINE_BLESS=1 make client");
});

const USAGE = `
  import { Comments, Feedline, FeedlineError, webSocket } from "feedline-client";
  import type { Comment, ConnectionState, Entry, FeedlineOptions, Notification, Post } from "feedline-client";
  import { useStore } from "feedline-client/react";

  const options: FeedlineOptions = { url: "/connection/websocket", user: "ann", token: "t", transport: webSocket() };
  const feedline = new Feedline(options);
  const entries: Entry[] = feedline.timeline.entries;
  const post: Post = entries[0].post;
  const text: string[] = entries.map(({ post }) => post.text);
  const shown: Entry[] = useStore(feedline.timeline, ({ entries }) => entries);
  feedline.connection.on("state", (state: ConnectionState) => state.name === "lost" && state.retryAt?.toFixed());
  feedline.connection.subscribe(\`post:\${1}\`, {
    publication: ({ data }) => data.type === "counts" && data.version.toFixed(),
  });
  feedline.connection.subscribe("chat:1", { publication: ({ data }) => data.anything });
  feedline.timeline.post({ text: "hello", visibility: { only_to: ["bo"] } });
  const comment: Comment = await feedline.api.comments.create({ id: post.id, text: "hi", reply_to: 1 });
  const { items } = await feedline.connection.rpc("users.posts", { id: "bo", limit: 5 });
  const authors: string[] = items.map(({ author }) => author);
  await feedline.api.likes.add({ comment: comment.id });
  await feedline.api.timeline.read();
  for await (const page of feedline.pages("users.followers", { id: "bo" })) page.items[0]?.name.trim();
  const comments: Comments = await feedline.ready(feedline.openComments(post.id, { order: "oldest" }));
  comments.items.map((one) => one.text?.trim());
  feedline.follows.items.map(({ name }) => name.trim());
  feedline.favourites.items.map((one) => one.post?.text.trim());
  feedline.favourites.on("reverted", ({ id, error }) => error.reason.concat(id));
  feedline.openTimeline({ method: "topics.read", params: { name: "rust" }, channel: "topic:rust" });
  const group: Notification | undefined = feedline.notifications.items[0];
  export { FeedlineError, authors, group, shown, text };

  // @ts-expect-error: not an operation
  feedline.connection.rpc("timeline.reed");
  // @ts-expect-error: not an operation
  feedline.api.timeline.reed();
  // @ts-expect-error: not a group
  feedline.api.coments.create({ id: 1, text: "" });
  // @ts-expect-error: the backend's own
  feedline.connection.rpc("server.publish", {});
  // @ts-expect-error: without its input
  feedline.api.comments.create();
  // @ts-expect-error: the text is missing
  feedline.api.comments.create({ id: post.id });
  // @ts-expect-error: the id of a post is a number
  feedline.api.posts.get({ id: "1" });
  // @ts-expect-error: not a member of the result
  comment.txt;
  // @ts-expect-error: it lists nothing
  feedline.pages("posts.get", { id: 1 });
  // @ts-expect-error: it lists no posts
  feedline.openTimeline({ method: "users.followers", params: { id: "bo" } });
  // @ts-expect-error: not an event of this channel
  feedline.connection.subscribe("post:1", { publication: ({ data }) => data.type === "read" });
  // @ts-expect-error: not a state
  feedline.connection.on("state", (state) => state.name === "sleeping");
  // @ts-expect-error: not a visibility
  feedline.timeline.post({ text: "hello", visibility: "nobody" });`;

/** What the examples use besides the module. */
const OTHERS = `
  declare module "ws";
  declare const process: { env: Record<string, string | undefined> };`;

/** Saves the examples of the documents that use the module. Returns their names. */
async function examples(place) {
  const documents = ["README.md", "docs/clients.md", "web/feedline/README.md"].map((name) => `../../${name}`);
  const texts = await Promise.all(documents.map((name) => readFile(new URL(name, import.meta.url), "utf8")));
  const codes = [...texts.join("\n").matchAll(/```js\n([^`]*? new Feedline\(.*?)```/gs)].map(([, code]) => code);
  assert.equal(codes.length, 3);
  await Promise.all(codes.map((code, at) => writeFile(path.join(place, `example-${at}.mjs`), code)));
  return codes.map((_, at) => `example-${at}.mjs`);
}

test("the packed module can be imported, and has types under both kinds of resolution", async () => {
  const { path: place } = folder;
  const files = await install(place, "react");
  const wanted = /^(README\.md|package\.json|[a-z-]+\.js|(types\/)?[a-z-]+\.d\.ts)$/;
  assert.deepEqual(files.filter((name) => !wanted.test(name)), []);
  const module = await import(pathToFileURL(path.join(place, "node_modules/feedline-client/index.js")));
  const { Feedline, Connection, webSocket } = module;
  const feedline = new Feedline({ url: "ws://127.0.0.1:1/", user: "ann", token: "t", transport: webSocket(class {}) });
  assert.ok(feedline.connection instanceof Connection && feedline.timeline.entries.length === 0);
  const names = await examples(place);
  await writeFile(path.join(place, "usage.mts"), USAGE);
  await writeFile(path.join(place, "others.d.ts"), OTHERS);
  for (const [resolution, kind] of [["nodenext", "nodenext"], ["bundler", "esnext"]]) {
    const strictly = ["--strict", "--noEmit", "--allowJs", "--checkJs", "--maxNodeModuleJsDepth", "0"];
    const how = ["--target", "es2022", "--moduleResolution", resolution, "--module", kind];
    const checked = run(tool("tsc"), [...strictly, ...how, "usage.mts", "others.d.ts", ...names], { cwd: place });
    await checked.catch(({ stdout }) => assert.fail(`${resolution}: ${stdout}`));
  }
});
