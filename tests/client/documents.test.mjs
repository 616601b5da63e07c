// Runs every command of README.md and docs/clients.md as it is written, in its order, in one shell for each document.
//
// The shell stands in a folder that looks like the repository. Stand-ins precede the real programs where a command
// would build the server, or would not end: `cargo run` runs the server that was built, `make` prints what it would
// do, and what runs until somebody stops it is stopped once it has shown what is expected.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { chmod, cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { run } from "../support/package.mjs";
import { BINARY, freePort } from "../support/server.mjs";
import { poll } from "../support/wait.mjs";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const PATIENCE_MS = 60_000;
/** Commands install packages and build a page, on a machine that does other things meanwhile. */
const BUILD_PATIENCE_MS = 3 * PATIENCE_MS;

const STAND_INS = {
  cargo: `case "$*" in
    "run --release -- demo") timeout --signal=INT 8 "$BINARY" demo || [ $? = 124 ] ;;
    "run --release")
      "$BINARY" serve >"$HERE/server.log" 2>&1 &
      echo $! >>"$HERE/pids"
      until curl --silent --fail "http://$ADDRESS/ready" >/dev/null; do sleep 0.1; done ;;
    *) echo "unexpected: cargo $*"; exit 1 ;;
  esac`,
  make: `/usr/bin/env -u MAKEFLAGS PATH="$REAL_PATH" make --directory "$ROOT" --dry-run "$@" >/dev/null`,
  // Programs of the documents run until they are stopped; npm and its tools are of the same kind, and are not.
  node: `case "$1" in *.mjs) ;; *) exec "$NODE" "$@" ;; esac
    case "$1" in /*) exec "$NODE" "$@" ;; esac
    "$NODE" "$@" >"$HERE/$1.log" &
    echo $! >>"$HERE/pids"
    echo $! >"$HERE/$1.pid"
    wait $! || true`,
  curl: `case " $* " in *" -N "*) timeout 3 "$CURL" "$@" || [ $? = 124 ] ;; *) exec "$CURL" "$@" ;; esac`,
};

const DOCUMENTS = {
  "README.md": {
    programs: { "watch.mjs": /Live\./, "timeline.mjs": /ann: Shown at once, stored once\. \(stored, 0 likes\)/ },
    prints: [
      ...[/127\.0\.0\.1:\d+\/#demo=/, /"text":"Hello from Bo\. #rust"/, /"position":\{/],
      ...[/"Sent by the backend"/, /"user":"mira"/],
    ],
  },
  "docs/clients.md": {
    before: "cargo run --release\n",
    programs: { "module.mjs": /ann: Posted by the client module\. \(stored/, "sdk.mjs": /ann: Posted by the SDK\./ },
    prints: [/"timeline:ann":\{/, /built in/, /http:\/\/[\w.]+:\d+\//],
  },
};

/** The document as a script: its commands, with its programs saved where it says so. */
function scriptOf(text) {
  const blocks = [...text.matchAll(/```(sh|js)\n(.*?)```|Save\s+this\s+as\s+`([\w.]+)`/gs)];
  let name = null;
  const parts = blocks.map(([, kind, code, saved]) => {
    if (kind === "sh") return code;
    if (kind === "js" && name) code = `cat >${name} <<'END OF FILE'\n${code}END OF FILE\n`;
    else code = "";
    name = saved ?? null;
    return code;
  });
  return parts.join("");
}

/** A folder that looks like the repository, and the environment of a shell in it. */
async function sandbox() {
  const here = await mkdtemp(path.join(tmpdir(), "feedline-documents-"));
  const address = `127.0.0.1:${await freePort()}`;
  await mkdir(path.join(here, "bin"));
  await mkdir(path.join(here, "target/release"), { recursive: true });
  await symlink(BINARY, path.join(here, "target/release/feedline"));
  await symlink(path.join(ROOT, "web"), path.join(here, "web"));
  const isSource = (name) => !/\/(node_modules|dist)$/.test(name);
  await cp(path.join(ROOT, "docs/example"), path.join(here, "docs/example"), { recursive: true, filter: isSource });
  for (const [name, text] of Object.entries(STAND_INS)) {
    await writeFile(path.join(here, "bin", name), `#!/usr/bin/env bash\n${text}\n`);
    await chmod(path.join(here, "bin", name), 0o755);
  }
  const curl = (await run("which", ["curl"])).stdout.trim();
  const env = {
    HOME: process.env.HOME,
    PATH: `${path.join(here, "bin")}${path.delimiter}${process.env.PATH}`,
    ...{ HERE: here, ROOT, BINARY, ADDRESS: address, NODE: process.execPath, CURL: curl, REAL_PATH: process.env.PATH },
    // The server, on a free port; the page of the example finds it there.
    FEEDLINE: `http://${address}`,
    FEEDLINE__SERVER__LISTEN: address,
    FEEDLINE__TRANSPORTS__UNI_HTTP_STREAM: "true",
    // What was installed for the tests need not be fetched again.
    ...{ npm_config_prefer_offline: "true", npm_config_audit: "false", npm_config_fund: "false" },
  };
  return { here, address, env };
}

const textOf = (file) => readFile(file, "utf8").catch(() => "");
const hasRegistry = run("npm", ["view", "ws", "version", "--fetch-retries=0"]).then(() => true, () => false);

for (const [document, { before = "", programs, prints }] of Object.entries(DOCUMENTS)) {
  test(`each command of ${document} works as it is written`, async (context) => {
    if (!process.env.CI && !(await hasRegistry)) return context.skip("there is no registry of packages");
    const { here, address, env } = await sandbox();
    const script = before + scriptOf(await readFile(path.join(ROOT, document), "utf8"));
    await writeFile(path.join(here, "script"), script.replaceAll("127.0.0.1:8000", address));
    const shell = spawn("bash", ["-eux", "script"], { cwd: here, env, detached: true });
    let said = "";
    let isOver = false;
    for (const stream of [shell.stdout, shell.stderr]) stream.setEncoding("utf8").on("data", (text) => (said += text));
    shell.once("exit", (code) => (isOver = code !== 0));
    const until = (holds, what) => {
      const ask = async () => (isOver ? assert.fail(`it ended before ${what}:\n${said}`) : holds());
      return poll(BUILD_PATIENCE_MS, ask, () => `no ${what} in:\n${said}`);
    };
    try {
      for (const [name, shown] of Object.entries(programs)) {
        await until(async () => shown.test(await textOf(path.join(here, `${name}.log`))), `${shown} of ${name}`);
        process.kill(Number(await textOf(path.join(here, `${name}.pid`))), "SIGINT");
      }
      for (const text of prints) await until(() => text.test(said), text);
    } finally {
      for (const pid of (await textOf(path.join(here, "pids"))).split("\n").filter(Boolean)) stop(Number(pid));
      stop(-shell.pid);
      await rm(here, { recursive: true, force: true, maxRetries: 5 });
    }
  });
}

/** Ends a process, or with a negative number a group of them, unless it has ended. */
function stop(pid) {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has.
  }
}
