// Optimistic likes: shown at once, pending until settled, and visibly reverted on failure.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { test } from "node:test";

import { HeldLine } from "./held-line.mjs";
import { idOf, LIVE_MS, signIn, stage } from "./people.mjs";

const HELD_MS = 2_000;
const FRAME_MS = 50;
const REVERTED_MS = 1_000;

let line;
const scene = stage({
  people: { ann: "Ann Arbor", bo: "Bo Diddley" },
  before: async ({ server, ann }) => {
    line = await HeldLine.to(server.port);
    await server.postOf("bo", "liked slowly");
    await server.postOf("bo", "soon gone");
    await ann.open(`${line.origin}/user/bo`);
    await signIn(ann, "ann");
    await ann.sees("post-body", "liked slowly");
  },
  after: () => line?.close(),
});

/** The state of a post's like button: pressed, state, and count. */
const like = (browser, id) =>
  browser.run((post) => {
    const button = document.querySelector(`[data-id="${post}"] [data-testid=like]`);
    return [button.getAttribute("aria-pressed"), button.dataset.state, button.textContent];
  }, id);

const becomes = (browser, id, wanted, ms) =>
  browser.until(
    () => like(browser, id),
    (now) => JSON.stringify(now) === JSON.stringify(wanted),
    `a like of ${wanted}`,
    ms,
  );

test("a like lights within a frame while its acknowledgement is held back, and settles after", async () => {
  const { ann, bo } = scene;
  const id = await idOf(ann, "liked slowly");
  // Counts are updated live for visible posts.
  await bo.click("curtain");
  await bo.sees("frames", `"channel":"post:${id}"`);
  line.holdMs = HELD_MS;
  const started = Date.now();
  await ann.run((post) => {
    const button = document.querySelector(`[data-id="${post}"] [data-testid=like]`);
    const clicked = performance.now();
    button.click();
    requestAnimationFrame(() =>
      requestAnimationFrame(() => {
        window.lit = { pressed: button.getAttribute("aria-pressed"), ms: performance.now() - clicked };
      }),
    );
  }, id);
  const lit = await ann.until(() => ann.run(() => window.lit), Boolean, "a frame");
  assert.equal(lit.pressed, "true");
  assert.ok(lit.ms <= FRAME_MS, `lit after ${lit.ms} ms`);
  assert.deepEqual(await like(ann, id), ["true", "pending", "1"]);
  await ann.shot("like-pending");
  await becomes(bo, id, ["false", "settled", "1"], LIVE_MS);
  assert.deepEqual(await like(ann, id), ["true", "pending", "1"]);
  await becomes(ann, id, ["true", "settled", "1"], HELD_MS + LIVE_MS);
  assert.ok(Date.now() - started >= HELD_MS, "the acknowledgement was held back");
  line.holdMs = 0;
  await ann.click(`[data-id="${id}"] [data-testid=like]`);
  await becomes(ann, id, ["false", "settled", ""], HELD_MS + LIVE_MS);
});

test("a like that cannot be settled is reverted in every tab, with the reason", async () => {
  const { server, driver, ann } = scene;
  const second = await driver.browser();
  try {
    await second.open(`${server.origin}/user/bo`);
    await signIn(second, "ann");
    const id = await idOf(second, "soon gone");
    await ann.click("curtain");
    const gone = await holdLedger(server, `UPDATE posts SET deleted_at = 1, body = NULL WHERE id = ${id}`);
    await ann.click(`[data-id="${id}"] [data-testid=like]`);
    await becomes(ann, id, ["true", "pending", "1"], LIVE_MS);
    // The reply has arrived: the queue acknowledged the like.
    await ann.sees("frames", '"state":"accepted"');
    await gone();
    const reverted = async (browser) => {
      await browser.sees(`[data-id="${id}"] [data-testid=reverted]`, "could not be saved", REVERTED_MS);
      await becomes(browser, id, ["false", "reverted", ""]);
    };
    await Promise.all([ann, second].map(reverted));
    await ann.click("drawer-close");
    await ann.shot("like-reverted");
    await ann.click(`[data-id="${id}"] [data-testid=dismiss]`);
    await becomes(ann, id, ["false", "settled", ""]);
  } finally {
    await second.close();
  }
});

/**
 * Takes the ledger's write lock, so that nothing is settled. The returned function applies the change and releases it.
 */
async function holdLedger(server, change) {
  const script =
    "import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1], isolation_level=None)\n" +
    "db.execute('BEGIN IMMEDIATE')\nprint('held', flush=True)\nsys.stdin.readline()\n" +
    "db.execute(sys.argv[2])\ndb.execute('COMMIT')\n";
  const file = path.join(server.dataDir, "feedline.db");
  const holder = spawn("python3", ["-c", script, file, change], { stdio: ["pipe", "pipe", "inherit"] });
  await once(holder.stdout, "data");
  return async () => {
    holder.stdin.write("\n");
    await once(holder, "exit");
  };
}
