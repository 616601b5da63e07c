// How frames travel: over a WebSocket, or where those are blocked over a response that does not end, with commands in
// requests beside it. The connection knows of neither: another transport is another factory.
/** @import { TransportFactory } from "./types.js" */

/** @param {typeof globalThis.WebSocket} [WebSocket] @returns {TransportFactory} */
export function webSocket(WebSocket = globalThis.WebSocket) {
  return (url, on) => {
    const socket = new WebSocket(url.replace(/^http/, "ws"));
    socket.onopen = () => on.open();
    socket.onmessage = ({ data }) => on.frame(String(data));
    socket.onclose = ({ code, reason }) => on.close(code, reason);
    // A close follows; without a listener, Node.js would end the process.
    socket.onerror = () => {};
    const close = () => {
      // A closing socket still delivers what was under way, which belongs to no connection any more.
      socket.onopen = socket.onmessage = socket.onclose = null;
      socket.close();
    };
    // Browsers log each frame for a closing socket as an error.
    const send = (/** @type {string} */ frame) => void (socket.readyState === 1 && socket.send(frame));
    return { send, close };
  };
}

/** Tries transports in turn until one received a frame, and keeps to it: to others than the first until they close.
 * @param {...TransportFactory} transports */
export function fallback(...transports) {
  let attempts = 0;
  /** @type {TransportFactory | null} */ let found = null;
  return /** @type {TransportFactory} */ (url, on) => {
    const transport = found ?? transports[attempts++ % transports.length];
    const frame = (/** @type {string} */ text) => ((found = transport), on.frame(text));
    // Others than the first are a detour: after one has closed, the first is tried again.
    const close = (/** @type {any} */ ...[code, why]) => (found && (attempts = 0), (found = null), on.close(code, why));
    return transport(url, { ...on, frame, ...(transport !== transports[0] && { close }) });
  };
}

/** @param {typeof globalThis.fetch} fetch @returns {TransportFactory} */
export function httpStream(fetch = (...request) => globalThis.fetch(...request)) {
  return (url, on) => {
    const base = url.replace(/^ws/, "http");
    const ended = new AbortController();
    const headers = { "content-type": "application/json" };
    /** @type {object | null} the session and the node of the stream, once they are known */ let stream = null;
    /** Commands keep their order: each request waits for the one before. @type {Promise<unknown>} */
    let sent = Promise.resolve();

    async function post(/** @type {string} */ path, /** @type {string} */ body) {
      const response = await fetch(new URL(path, base), { method: "POST", headers, body, signal: ended.signal });
      if (!response.ok) throw new Error(`${response.status} of ${path}`);
      return response;
    }
    async function read(/** @type {string} */ first) {
      const { body } = await post("http_stream", first);
      const decoder = /** @type {TransformStream<Uint8Array, string>} */ (new TextDecoderStream());
      const reader = /** @type {ReadableStream<Uint8Array>} */ (body).pipeThrough(decoder).getReader();
      for (let rest = ""; ; ) {
        const { done, value } = await reader.read();
        if (done) throw new Error("the stream ended");
        const lines = (rest + value).split("\n");
        rest = lines.pop() ?? "";
        if (lines.length > 0 && !ended.signal.aborted) on.frame(lines.join("\n"));
      }
    }
    function lost(/** @type {Error} */ { message }) {
      if (ended.signal.aborted) return;
      ended.abort();
      on.close(0, message);
    }
    function send(/** @type {string} */ data) {
      if (stream) sent = sent.then(() => post("../emulation", JSON.stringify({ ...stream, data })));
      (stream ? sent : read(data)).catch(lost);
    }

    queueMicrotask(() => ended.signal.aborted || on.open());
    return { send, close: () => ended.abort(), established: (name) => void (stream = name) };
  };
}
