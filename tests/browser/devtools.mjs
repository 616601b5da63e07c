// The DevTools protocol of a browser, for what WebDriver cannot do: events, and workers.

import { WebSocket } from "ws";

import { poll } from "../support/wait.mjs";

const PATIENCE_MS = 10_000;

/** A connection to a browser. Commands go to the browser, or with a session to a page or worker. */
export class DevTools {
  #socket;
  #lastId = 0;
  #waiting = new Map();
  /** All events: `{method, params, sessionId}`. */
  events = [];

  static async connect({ debuggerAddress }) {
    const { webSocketDebuggerUrl } = await (await fetch(`http://${debuggerAddress}/json/version`)).json();
    const tools = new DevTools();
    tools.#socket = new WebSocket(webSocketDebuggerUrl);
    tools.#socket.on("message", (text) => tools.#message(JSON.parse(text)));
    await new Promise((resolve, reject) => tools.#socket.once("open", resolve).once("error", reject));
    return tools;
  }

  close() {
    this.#socket.close();
  }

  send(method, params = {}, sessionId = undefined) {
    return new Promise((resolve, reject) => {
      const id = ++this.#lastId;
      this.#waiting.set(id, { resolve, reject: (error) => reject(new Error(`${method}: ${error.message}`)) });
      this.#socket.send(JSON.stringify({ id, method, params, sessionId }));
    });
  }

  /** A session with the first target that fits. */
  async attach(fits) {
    const found = await poll(PATIENCE_MS, async () => {
      const { targetInfos } = await this.send("Target.getTargets");
      return targetInfos.find(fits);
    }, "no such target");
    const { sessionId } = await this.send("Target.attachToTarget", { targetId: found.targetId, flatten: true });
    return sessionId;
  }

  /** Evaluates an expression; the result is JSON. */
  async evaluate(expression, sessionId) {
    const options = { expression, awaitPromise: true, returnByValue: true };
    const { result, exceptionDetails } = await this.send("Runtime.evaluate", options, sessionId);
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  }

  #message({ id, result, error, ...event }) {
    if (!id) return this.events.push(event);
    const { resolve, reject } = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (error) reject(error);
    else resolve(result);
  }
}
