// Records docs/pictures/line.webp from the demonstration: the line is lost, people go on posting, and the page catches
// up. Run by `make recording`; it needs the executable, and Chromium with its driver.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

import { Driver } from "./driver.mjs";
import { live, state } from "./people.mjs";

const FEEDLINE = process.env.FEEDLINE_BIN ?? fileURLToPath(new URL("../../target/debug/feedline", import.meta.url));
const TARGET = fileURLToPath(new URL("../../docs/pictures/line.webp", import.meta.url));
const SIZE = { width: 1000, height: 620 };
const QUALITY = 55;
const FRAME_MS = 250;
/** For how long the line is lost: the demonstration has a post every nine seconds at least. */
const LOST_MS = 13_000;

const demo = spawn(FEEDLINE, ["demo"], { stdio: ["ignore", "pipe", "inherit"] });
const [first] = await once(createInterface(demo.stdout), "line");
const driver = await Driver.start();
const browser = await driver.browser();
try {
  await browser.emulate(SIZE);
  await browser.open(first.slice(first.indexOf("http")));
  await live(browser);
  await browser.sees("post-body", "");
  const frames = [];
  const recording = { isOn: true };
  const recorded = record(frames, recording);
  await sleep(3_000);
  await network(true);
  await state(browser, "lost", 20_000).catch(() => {});
  await sleep(LOST_MS);
  await network(false);
  await live(browser);
  await browser.sees("recovered", "nothing missed");
  await sleep(4_000);
  recording.isOn = false;
  await recorded;
  const bytes = animation(frames);
  await writeFile(TARGET, bytes);
  console.log(`${frames.length} frames, ${bytes.length} bytes: ${TARGET}`);
} finally {
  await browser.close();
  await driver.stop();
  demo.kill("SIGINT");
  await once(demo, "exit");
}

function network(offline) {
  const conditions = { offline, latency: 0, download_throughput: -1, upload_throughput: -1 };
  return browser.call("POST", "/chromium/network_conditions", { network_conditions: conditions });
}

/** Takes pictures until it is stopped. One that is like the last one makes that one stay longer. */
async function record(frames, recording) {
  const params = { format: "webp", quality: QUALITY };
  while (recording.isOn) {
    const begun = Date.now();
    const { data } = await browser.call("POST", "/goog/cdp/execute", { cmd: "Page.captureScreenshot", params });
    const last = frames.at(-1);
    if (last?.data === data) last.ms += FRAME_MS;
    else frames.push({ data, ms: FRAME_MS });
    await sleep(Math.max(0, FRAME_MS - (Date.now() - begun)));
  }
}

/** An animated WebP of still ones: their image chunks, each in a frame of its own. */
function animation(frames) {
  const canvas = Buffer.alloc(10);
  canvas.writeUInt8(0x02, 0); // It is animated.
  canvas.writeUIntLE(SIZE.width - 1, 4, 3);
  canvas.writeUIntLE(SIZE.height - 1, 7, 3);
  const loop = Buffer.from([0xff, 0xff, 0xff, 0xff, 0, 0]); // A white background, for ever.
  const parts = frames.map(({ data, ms }) => {
    const head = Buffer.alloc(16);
    head.writeUIntLE(SIZE.width - 1, 6, 3);
    head.writeUIntLE(SIZE.height - 1, 9, 3);
    head.writeUIntLE(ms, 12, 3);
    return chunk("ANMF", Buffer.concat([head, imageOf(Buffer.from(data, "base64"))]));
  });
  const body = Buffer.concat([Buffer.from("WEBP"), chunk("VP8X", canvas), chunk("ANIM", loop), ...parts]);
  return chunk("RIFF", body);
}

function chunk(name, content) {
  const head = Buffer.alloc(8, name);
  head.writeUInt32LE(content.length, 4);
  return Buffer.concat([head, content, Buffer.alloc(content.length % 2)]);
}

/** The chunk with the image of a still WebP. */
function imageOf(file) {
  for (let at = 12; at + 8 <= file.length; ) {
    const size = file.readUInt32LE(at + 4);
    const end = at + 8 + size + (size % 2);
    if (/^VP8[ L]$/.test(file.toString("latin1", at, at + 4))) return file.subarray(at, end);
    at = end;
  }
  throw new Error("the picture has no image");
}
