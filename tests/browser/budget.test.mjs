// The size budget of the page: script and style bytes on the wire, and the time to the first paint of the shell.

import assert from "node:assert/strict";
import { once } from "node:events";
import http from "node:http";
import { test } from "node:test";
import { brotliCompressSync, brotliDecompressSync, gunzipSync } from "node:zlib";

import { go, live, signIn, stage } from "./people.mjs";

/** The limit for the script and style up to Home, in each language, and for those of all views. */
const MAX_BYTES = 54_000;
const MAX_BYTES_OF_ALL = 103_500;
/** The limit of the first paint of the shell, as a multiple of that of a page whose script writes one word. */
const MAX_PAINT_RATIO = 5;
const COLD_STARTS = 5;
/** The limit of the cumulative layout shift at start. Browsers rate values up to 0.1 as good. */
const MAX_SHIFT = 0.02;

const scene = stage({
  people: { ann: "Ann Arbor" },
  before: async ({ server }) => {
    for (let n = 1; n <= 30; n += 1) await server.postOf("ann", `post ${n} #shift`);
  },
});

/** Requests a file and returns its status, headers and undecoded bytes. */
function request(path, headers = {}) {
  return new Promise((resolve, reject) => {
    http.get(scene.server.origin + path, { headers, agent: false }, (response) => {
      const chunks = [];
      response.on("data", (chunk) => chunks.push(chunk));
      response.on("end", () => {
        resolve({ status: response.statusCode, headers: response.headers, bytes: Buffer.concat(chunks) });
      });
    }).on("error", reject);
  });
}

/**
 * The scripts and styles that the page has loaded, without the hashes in their names, with their sizes in bytes:
 * those of a release build, which compresses more than this one.
 */
async function loaded(browser) {
  const paths = await browser.run(() =>
    performance
      .getEntriesByType("resource")
      .filter(({ name }) => /\.(js|css)$/.test(name))
      .map(({ name }) => new URL(name).pathname),
  );
  const sized = paths.map(async (path) => ({
    path: path.replace(/\.[0-9a-f]{16}(?=\.)/, ""),
    bytes: brotliCompressSync((await request(path)).bytes).length,
  }));
  return Promise.all(sized);
}

/** The times of the first paint and of the entry script's arrival, in ms since the navigation. */
function firstPaint() {
  const [paint] = performance.getEntriesByName("first-contentful-paint");
  const [script] = performance.getEntriesByName(document.querySelector("script").src);
  return paint && { ms: paint.startTime, scriptMs: script.responseEnd };
}

/** Observes the layout shifts since the navigation; the sum is in `window.shifted`. */
function observeShifts() {
  window.shifted = 0;
  new PerformanceObserver((list) => {
    for (const { value, hadRecentInput } of list.getEntries()) if (!hadRecentInput) window.shifted += value;
  }).observe({ type: "layout-shift", buffered: true });
}

test("files are compressed as the client accepts, and each encoding has its own tag", async () => {
  const plain = await request("/app.js");
  const brotli = await request("/app.js", { "accept-encoding": "gzip, deflate, br" });
  const gzip = await request("/app.js", { "accept-encoding": "gzip, br;q=0" });
  assert.equal(plain.headers["content-encoding"], undefined);
  assert.equal(brotli.headers["content-encoding"], "br");
  assert.equal(gzip.headers["content-encoding"], "gzip");
  assert.deepEqual(brotliDecompressSync(brotli.bytes), plain.bytes);
  assert.deepEqual(gunzipSync(gzip.bytes), plain.bytes);
  const tags = [plain, brotli, gzip].map(({ headers }) => headers.etag);
  assert.equal(new Set(tags).size, 3);
  for (const { headers } of [plain, brotli, gzip]) assert.equal(headers.vary, "accept-encoding");
});

test("a file that the client has is not sent again", async () => {
  const accept = { "accept-encoding": "br" };
  const { headers } = await request("/app.js", accept);
  for (const tag of [headers.etag, `"other", W/${headers.etag}`]) {
    const again = await request("/app.js", { ...accept, "if-none-match": tag });
    assert.equal(again.status, 304);
    assert.equal(again.bytes.length, 0);
    assert.equal(again.headers.etag, headers.etag);
  }
  const uncompressed = await request("/app.js", { "if-none-match": headers.etag });
  assert.equal(uncompressed.status, 200);
});

const sum = (files) => files.reduce((total, file) => total + file.bytes, 0);

test("the script and style up to Home stay small on the wire", async () => {
  const { driver, server } = scene;
  for (const language of ["en", "zh"]) {
    const fresh = await driver.browser();
    try {
      await fresh.open(`${server.origin}/icon.svg`);
      await fresh.run((name) => localStorage.setItem("feedline.language", name), language);
      await fresh.open(`${server.origin}/sign-in`);
      await signIn(fresh, "ann");
      await live(fresh);
      const files = await loaded(fresh);
      const paths = files.map(({ path }) => path).sort();
      assert.deepEqual(paths, [`/i18n/${language}.js`, "/main.js", "/style/index.css"]);
      console.log(`${sum(files)} bytes: ${files.map(({ path, bytes }) => `${path} ${bytes}`).join(", ")}`);
      assert.ok(sum(files) > 10_000, "the sizes were measured");
      assert.ok(sum(files) < MAX_BYTES, `${sum(files)} bytes`);
    } finally {
      await fresh.close();
    }
  }
});

test("the other views are one script, loaded before it is needed", async () => {
  const { ann } = scene;
  for (const path of ["/explore", "/topics", "/notifications", "/favourites", "/settings", "/user/ann", "/search"]) {
    await go(ann, path);
  }
  await ann.click("curtain");
  await ann.sees("frames", "subscribe");
  const files = await loaded(ann);
  const paths = [...new Set(files.map(({ path }) => path))].sort();
  assert.deepEqual(paths, ["/i18n/en.js", "/main.js", "/style/index.css", "/views/more.js"]);
  console.log(`${sum(files)} bytes of all views`);
  assert.ok(sum(files) < MAX_BYTES_OF_ALL, `${sum(files)} bytes`);
});

/** A server of the page that the first paint is compared with: it waits for its script, too. */
async function smallPage() {
  const files = {
    "/": ["text/html", '<!doctype html><title>Floor</title><script type="module" src="/main.js"></script>'],
    "/main.js": ["text/javascript", 'document.body.textContent = "painted"'],
  };
  const server = http.createServer(({ url }, response) => {
    const [type, text] = files[url] ?? ["text/plain", ""];
    response.writeHead(200, { "content-type": type }).end(text);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  return server;
}

const median = (numbers) => numbers.toSorted((a, b) => a - b)[numbers.length >> 1];

test("the shell is painted soon after a cold start, and nothing moves afterwards", async () => {
  const { server, driver, ann } = scene;
  const session = await ann.run(() => Object.entries(localStorage));
  const floor = await smallPage();
  const times = [];
  const floors = [];
  for (let start = 0; start < COLD_STARTS; start += 1) {
    // A new browser has an empty cache.
    const cold = await driver.browser();
    try {
      await cold.open(`http://127.0.0.1:${floor.address().port}`);
      floors.push((await cold.until(() => cold.run(firstPaint), Boolean, "a paint of the small page")).ms);
      await cold.open(`${server.origin}/icon.svg`);
      await cold.run((entries) => entries.forEach(([key, value]) => localStorage.setItem(key, value)), session);
      await cold.open(server.origin);
      await live(cold);
      const paint = await cold.until(() => cold.run(firstPaint), Boolean, "a paint");
      assert.ok(paint.ms >= paint.scriptMs, "the first paint is that of the shell");
      times.push(paint.ms);
      await cold.run(observeShifts);
      await cold.sees("topic", "#shift");
      const shifted = await cold.run(() => window.shifted);
      assert.ok(shifted <= MAX_SHIFT, `the page shifted by ${shifted}`);
    } finally {
      await cold.close();
    }
  }
  floor.close();
  const ratio = median(times) / median(floors);
  const list = (numbers) => numbers.map(Math.round).join(", ");
  console.log(`first paint after ${list(times)} ms, of the small page after ${list(floors)} ms: ${ratio.toFixed(2)}`);
  assert.ok(ratio <= MAX_PAINT_RATIO, `the first paint takes ${ratio.toFixed(2)} times that of the small page`);
});
