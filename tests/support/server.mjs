// Starts the servers that a test needs (Feedline, Redis) on free ports with their own data, and stops them again.

import { execFile, spawn } from "node:child_process";
import { createHmac, randomBytes } from "node:crypto";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import net from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { poll, within } from "./wait.mjs";

/** The rate limits that are off in tests. */
const RATES = [
  "POSTS", "COMMENTS", "LIKES", "FOLLOWS", "WRITES", "MENTIONS", "TOPICS", "SUBSCRIPTIONS", "READS", "PUBLICATIONS",
  "ACCOUNTS", "SESSIONS",
];

const TARGET = process.env.CARGO_TARGET_DIR ?? fileURLToPath(new URL("../../target", import.meta.url));
export const BINARY = path.resolve(process.env.FEEDLINE_BIN ?? path.join(TARGET, "debug/feedline"));
const START_MS = 20_000;
const STOP_MS = 10_000;
const LOG_LINES = 200;

/** The broker of servers without an explicit one: "memory" or "redis". */
const BROKER = process.env.FEEDLINE_BROKER ?? "memory";

/** Test namespaces: one with all features, one without a log, one that denies access to everyone, one with deltas. */
export const NAMESPACES = [
  { name: "chat", history_size: 100, history_ttl: "60s", presence: true, join_leave: true, publish: "subscriber" },
  { name: "quiet" },
  { name: "closed", subscribe: "nobody" },
  { name: "delta", history_size: 100, history_ttl: "60s", delta: true },
];

const children = new Set();
// Kill all child processes at exit, even if a test fails halfway.
process.on("exit", () => {
  for (const child of children) child.kill("SIGKILL");
});

/**
 * Returns a free port below the ephemeral range, so that no outgoing connection takes it while a server restarts.
 * Another process may take it before the caller binds it; callers then retry.
 */
export async function freePort() {
  for (;;) {
    const port = 15_000 + Math.floor(Math.random() * 17_000);
    const probe = net.createServer();
    const free = await new Promise((resolve) => {
      probe.once("error", () => resolve(false)).listen(port, "127.0.0.1", () => resolve(true));
    });
    if (!free) continue;
    probe.close();
    await once(probe, "close");
    return port;
  }
}

/** Starts a server on a free port. Retries with another port if that one is taken. */
async function onFreePort(start) {
  for (let tries = 1; ; tries++) {
    try {
      return await start(await freePort());
    } catch (error) {
      if (tries === 10 || !/cannot listen on|Address already in use/.test(error.message)) throw error;
    }
  }
}

/** A child process and the end of its log. */
class Process {
  #lines = [];

  constructor(command, args, options) {
    this.child = spawn(command, args, { ...options, stdio: ["ignore", "pipe", "pipe"] });
    children.add(this.child);
    this.exited = new Promise((resolve) => {
      this.child.once("error", (error) => resolve(error.message));
      this.child.once("exit", (code, signal) => resolve(signal ?? `code ${code}`));
    }).finally(() => children.delete(this.child));
    for (const stream of [this.child.stdout, this.child.stderr]) {
      stream.setEncoding("utf8").on("data", (text) => {
        this.#lines.push(...text.split("\n").filter(Boolean));
        this.#lines.splice(0, this.#lines.length - LOG_LINES);
      });
    }
  }

  get log() {
    return this.#lines.join("\n");
  }

  async end(signal) {
    this.child.kill(signal);
    await within(STOP_MS, this.exited, `${this.child.spawnfile} did not stop`);
  }

  /** Waits until `ready` returns true. Fails at once if the process ends. */
  async until(ready) {
    const ended = this.exited.then((how) => {
      throw new Error(`${this.child.spawnfile} ended (${how}) before it was ready:\n${this.log}`);
    });
    await Promise.race([ended, poll(START_MS, ready, () => `${this.child.spawnfile} is not ready:\n${this.log}`)]);
    ended.catch(() => {});
  }
}

/** A Feedline server of the test. */
export class Server {
  #process = null;
  #env;
  #directory;
  #redis = null;
  #secret = randomBytes(32).toString("hex");
  apiKey = randomBytes(16).toString("hex");

  /** Starts a server. `env` adds environment variables to its configuration. */
  static async start(env = {}) {
    if (!existsSync(BINARY)) throw new Error(`there is no ${BINARY}: build it first, or name it with FEEDLINE_BIN`);
    const server = new Server();
    server.#directory = await mkdtemp(path.join(tmpdir(), "feedline-test-"));
    if (BROKER === "redis" && !env.FEEDLINE__BROKER__URL) {
      server.#redis = await Redis.start();
      env = { FEEDLINE__BROKER__URL: server.#redis.url, ...env };
    }
    server.#env = {
      PATH: process.env.PATH,
      FEEDLINE__SERVER__DATA_DIR: path.join(server.#directory, "data"),
      FEEDLINE__SERVER__DRAIN: "100ms",
      FEEDLINE__AUTH__HMAC_SECRET: server.#secret,
      FEEDLINE__AUTH__API_KEYS: server.apiKey,
      // Tests use short tokens: only `sub`, and no leeway for expiry.
      FEEDLINE__AUTH__REQUIRE_EXP: "false",
      FEEDLINE__AUTH__LEEWAY: "0s",
      // Accounts are enabled next to the application's tokens, which use the secret above.
      FEEDLINE__ACCOUNTS__ENABLED: "true",
      FEEDLINE__NAMESPACES: JSON.stringify(NAMESPACES),
      // Tests send requests faster than the default rate limits allow.
      ...Object.fromEntries(RATES.map((rate) => [`FEEDLINE__RATES__${rate}`, "0"])),
      ...env,
    };
    try {
      await onFreePort((port) => {
        server.port = port;
        server.#env.FEEDLINE__SERVER__LISTEN = `127.0.0.1:${port}`;
        return server.restart();
      });
    } catch (error) {
      await server.stop();
      throw error;
    }
    return server;
  }

  /** The folder of its files. */
  get dataDir() {
    return path.join(this.#directory, "data");
  }

  get origin() {
    return `http://127.0.0.1:${this.port}`;
  }

  get socketUrl() {
    return `ws://127.0.0.1:${this.port}/connection/websocket`;
  }

  get log() {
    return this.#process?.log ?? "";
  }

  /** Starts the server, or starts it again, on the same port and data. */
  async restart() {
    this.#process = new Process(BINARY, ["serve"], { cwd: this.#directory, env: this.#env });
    const mine = this.#process;
    // Another server that took the port first would answer as well.
    const says = () => mine.log.includes(" is at http://");
    await mine.until(() => says() && fetch(`${this.origin}/ready`).then((response) => response.ok, () => false));
  }

  /** Runs another command of the binary with the same configuration. Returns its output; rejects if it fails. */
  async command(...args) {
    const run = promisify(execFile)(BINARY, args, { cwd: this.#directory, env: this.#env, timeout: STOP_MS });
    return (await run).stdout;
  }

  /** Sends a stop signal, and waits for the exit. */
  async shutdown() {
    await this.#process.end("SIGTERM");
  }

  /** Kills the server, as in a crash. */
  async kill() {
    await this.#process.end("SIGKILL");
  }

  /** Stops the server and deletes its data. */
  async stop() {
    await this.#process?.end("SIGKILL");
    await this.#redis?.stop();
    await rm(this.#directory, { recursive: true, force: true });
  }

  /** A signed token of a user. */
  token(user, claims = {}, secret = this.#secret) {
    const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
    const signed = `${part({ alg: "HS256", typ: "JWT" })}.${part({ sub: user, ...claims })}`;
    return `${signed}.${createHmac("sha256", secret).update(signed).digest("base64url")}`;
  }

  /** Calls an HTTP operation as a user. Returns `{status, body}`. */
  async call(user, method, route, body) {
    return this.#request(method, `/api/v1${route}`, { authorization: `Bearer ${this.token(user)}` }, body);
  }

  /** Calls an HTTP operation that must succeed. Returns the body. */
  async done(user, method, route, body) {
    const answer = await this.call(user, method, route, body);
    if (answer.status >= 300) throw new Error(`${method} ${route}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body;
  }

  post(user, text) {
    return this.done(user, "POST", "/posts", { text });
  }

  /** Creates users: each user is created on their first request. */
  async meet(...users) {
    for (const user of users) await this.done(user, "GET", `/users/${user}`);
  }

  follow(user, target) {
    return this.done(user, "PUT", `/users/${target}/follow`);
  }

  /** Calls an operation with a backend's key, for a Feedline account. */
  async callAs(account, method, route, body) {
    const headers = { "x-api-key": this.apiKey, "x-user": account, "x-user-origin": "account" };
    const answer = await this.#request(method, `/api/v1${route}`, headers, body);
    if (answer.status >= 300) throw new Error(`${method} ${route}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body;
  }

  /** Creates a post of an account. */
  postOf(account, text) {
    return this.callAs(account, "POST", "/posts", { text });
  }

  /** Calls the server API as a backend. Returns `{status, body}`. */
  backend(method, body, key = this.apiKey) {
    return this.#request("POST", `/api/${method}`, { "x-api-key": key }, body);
  }

  async publish(channel, data) {
    const { status, body } = await this.backend("publish", { channel, data });
    if (status !== 200 || !body.result) throw new Error(`publish to ${channel}: ${status} ${JSON.stringify(body)}`);
    return body.result;
  }

  async #request(method, route, headers, body) {
    const request = { method, headers: { ...headers }, signal: AbortSignal.timeout(10_000) };
    if (body !== undefined) {
      request.headers["content-type"] = "application/json";
      request.body = JSON.stringify(body);
    }
    const response = await fetch(this.origin + route, request);
    const text = await response.text();
    return { status: response.status, body: text ? JSON.parse(text) : null };
  }
}

/** A Redis of the test, in memory only. */
export class Redis {
  #process;
  #directory;

  static async start() {
    const redis = new Redis();
    redis.#directory = await mkdtemp(path.join(tmpdir(), "feedline-redis-"));
    await onFreePort((port) => {
      redis.port = port;
      const args = ["--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"].map(String);
      redis.#process = new Process("redis-server", args, { cwd: redis.#directory });
      return redis.#process.until(() => /Ready to accept connections/.test(redis.#process.log) && answersPing(port));
    });
    return redis;
  }

  get url() {
    return `redis://127.0.0.1:${this.port}`;
  }

  async stop() {
    await this.#process.end("SIGKILL");
    await rm(this.#directory, { recursive: true, force: true });
  }
}

async function answersPing(port) {
  const socket = net.connect(port, "127.0.0.1");
  try {
    await once(socket, "connect");
    socket.write("PING\r\n");
    const [answer] = await once(socket, "data");
    return String(answer).startsWith("+PONG");
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
