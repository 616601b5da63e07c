// Controls Chromium through chromedriver, with plain WebDriver over HTTP.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

import { freePort } from "../support/server.mjs";
import { poll } from "../support/wait.mjs";

const PATIENCE_MS = 10_000;
const ELEMENT = "element-6066-11e4-a52e-4f735466cecf";
/** The folder for the screenshots that the tests take. */
const SHOTS = fileURLToPath(new URL("../../target/screenshots/", import.meta.url));
const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-background-networking",
  "--disable-sync",
  "--no-first-run",
  "--disable-dev-shm-usage",
  "--lang=en-GB",
];

/** An error of the driver; `kind` is its WebDriver name. */
class DriverError extends Error {
  constructor(message, kind) {
    super(message);
    this.kind = kind;
  }
}

/** A chromedriver process for the tests. */
export class Driver {
  static async start() {
    const driver = new Driver();
    driver.port = await freePort();
    driver.process = spawn("chromedriver", [`--port=${driver.port}`], { stdio: "ignore" });
    process.once("exit", () => driver.process.kill("SIGKILL"));
    const failed = once(driver.process, "error").then(([error]) => Promise.reject(error));
    failed.catch(() => {});
    const ready = () =>
      driver.call("GET", "/status").then(
        (status) => status.ready,
        () => false,
      );
    await Promise.race([failed, poll(PATIENCE_MS, ready, "chromedriver is not ready")]);
    return driver;
  }

  async stop() {
    this.process.kill("SIGTERM");
    if (this.process.exitCode === null && this.process.signalCode === null) await once(this.process, "exit");
  }

  async call(method, route, body) {
    const request = { method, signal: AbortSignal.timeout(60_000), ...(body && { body: JSON.stringify(body) }) };
    const { value } = await (await fetch(`http://127.0.0.1:${this.port}${route}`, request)).json();
    if (value?.error) throw new DriverError(`${method} ${route}: ${value.error}: ${value.message}`, value.error);
    return value;
  }

  /** Opens a browser with an empty profile. */
  async browser({ width = 1180, height = 900 } = {}) {
    const profile = await mkdtemp(path.join(tmpdir(), "feedline-profile-"));
    const args = [...FLAGS, `--user-data-dir=${profile}`, `--window-size=${width},${height}`];
    const capabilities = { alwaysMatch: { "goog:chromeOptions": { args }, "goog:loggingPrefs": { browser: "ALL" } } };
    const { sessionId, capabilities: given } = await this.call("POST", "/session", { capabilities });
    const { debuggerAddress } = given["goog:chromeOptions"];
    return new Browser(this, sessionId, profile, given["goog:processID"], debuggerAddress);
  }
}

/** One browser window. Elements are identified by their `data-testid` or by a selector. */
export class Browser {
  #kill;

  constructor(driver, id, profile, pid, debuggerAddress) {
    Object.assign(this, { driver, id, profile, debuggerAddress });
    // chromedriver does not stop its browsers on exit, so an aborted test kills the browser here.
    this.#kill = () => process.kill(pid, "SIGKILL");
    process.once("exit", this.#kill);
  }

  call(method, route, body) {
    return this.driver.call(method, `/session/${this.id}${route}`, body);
  }

  open(url) {
    return this.call("POST", "/url", { url });
  }

  reload() {
    return this.call("POST", "/refresh", {});
  }

  /** Runs a function in the page. Its arguments and its result are JSON. */
  run(inPage, ...args) {
    return this.call("POST", "/execute/sync", { script: `return (${inPage})(...arguments)`, args });
  }

  /**
   * Acts on an element once it exists, is displayed and stands still: a click is aimed at a place, and would miss an
   * element that moves. If the page replaces the element, it is looked up again.
   */
  async #act(name, action, body) {
    const value = selector(name);
    let place = "";
    const attempt = async () => {
      const [found] = await this.call("POST", "/elements", { using: "css selector", value });
      if (!found || !(await this.call("GET", `/element/${found[ELEMENT]}/displayed`))) return false;
      const before = place;
      place = JSON.stringify(await this.call("GET", `/element/${found[ELEMENT]}/rect`));
      if (place !== before) return false;
      await this.call("POST", `/element/${found[ELEMENT]}/${action}`, body);
      return true;
    };
    const unlessReplaced = (error) => {
      if (error.kind !== "stale element reference") throw error;
      return false;
    };
    await poll(PATIENCE_MS, () => attempt().catch(unlessReplaced), `no ${value} to be seen`);
  }

  click(name) {
    return this.#act(name, "click", {});
  }

  /** Types into an empty field. */
  type(name, text) {
    return this.#act(name, "value", { text });
  }

  /** Presses a key on the focused element, with a modifier held if there is one. */
  press(key, modifier = null) {
    const keys = modifier ? [modifier, key] : [key];
    const actions = [
      ...keys.map((value) => ({ type: "keyDown", value })),
      ...keys.reverse().map((value) => ({ type: "keyUp", value })),
    ];
    return this.call("POST", "/actions", { actions: [{ type: "key", id: "keyboard", actions }] });
  }

  /** The texts of all elements that match a name. */
  texts(name) {
    return this.run((query) => [...document.querySelectorAll(query)].map((found) => found.textContent), selector(name));
  }

  /** Calls `ask` repeatedly until `fits` accepts its result. */
  async until(ask, fits, what, ms = PATIENCE_MS) {
    let last;
    const right = async () => fits((last = await ask()));
    await poll(ms, right, () => `${what}: ${JSON.stringify(last)}`);
    return last;
  }

  /** Waits for a text in one of the elements that match a name. */
  sees(name, text, ms) {
    return this.until(
      () => this.texts(name),
      (texts) => texts.some((one) => one.includes(text)),
      `${text} in ${name}`,
      ms,
    );
  }

  /** Errors and warnings that the page's console logged since the last call. */
  async complaints() {
    const entries = await this.call("POST", "/se/log", { type: "browser" });
    return entries.filter(({ level }) => level !== "INFO" && level !== "DEBUG").map(({ message }) => message);
  }

  /** Emulates a colour scheme and a window size. Disables motion, so that theme colours apply at once. */
  async emulate({ dark = false, width, height }) {
    const command = (cmd, params) => this.call("POST", "/goog/cdp/execute", { cmd, params });
    await command("Emulation.setEmulatedMedia", {
      features: [
        { name: "prefers-color-scheme", value: dark ? "dark" : "light" },
        { name: "prefers-reduced-motion", value: "reduce" },
      ],
    });
    await command("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: false });
  }

  /** Saves a screenshot of the window. */
  async shot(name) {
    await mkdir(SHOTS, { recursive: true });
    await writeFile(path.join(SHOTS, `${name}.png`), Buffer.from(await this.call("GET", "/screenshot"), "base64"));
  }

  async close() {
    process.off("exit", this.#kill);
    await this.call("DELETE", "");
    await rm(this.profile, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  }
}

function selector(name) {
  return /^[\w-]+$/.test(name) ? `[data-testid="${name}"]` : name;
}
