// The crowd of a development page: simulated users post, like and comment. Once the crowd is dismissed, none of its
// posts and follows remain.

import assert from "node:assert/strict";
import { test } from "node:test";

import { go, posts, stage } from "./people.mjs";

const CROWD_MS = 20_000;
const scene = stage({ people: { ann: "Ann Arbor" } });

test("the crowd posts, likes and comments live, until it is sent away", async () => {
  const { ann } = scene;
  await ann.click("curtain");
  await ann.click("crowd");
  await ann.until(
    () => posts(ann),
    (now) => now.length >= 3,
    "posts of the crowd",
    CROWD_MS,
  );
  await ann.sees("frames", "counts", CROWD_MS);
  await ann.shot("crowd");
  await ann.click("crowd");
  await ann.until(
    () => posts(ann),
    (now) => now.length === 0,
    "the crowd's posts left",
    CROWD_MS,
  );
  await ann.click("drawer-close");
  await go(ann, "/user/ann/following");
  await ann.sees("empty", "Follows nobody yet");
  assert.equal((await ann.texts("person")).length, 0);
});
