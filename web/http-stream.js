// The fallback where WebSockets are blocked: a response that does not end, and commands in requests beside it.

/**
 * Tries the transports in turn until one has received a frame, and keeps to that one.
 * @param {...import("./feedline/types.js").TransportFactory} transports
 * @returns {import("./feedline/types.js").TransportFactory}
 */
export function fallback(...transports) {
  let attempts = 0;
  let found = null;
  return (url, on) => {
    const transport = found ?? transports[attempts++ % transports.length];
    const frame = (text) => {
      found = transport;
      on.frame(text);
    };
    return transport(url, { ...on, frame });
  };
}

/** @returns {import("./feedline/types.js").TransportFactory} */
export function httpStream(fetch = (...request) => globalThis.fetch(...request)) {
  return (url, on) => {
    const base = url.replace(/^ws/, "http");
    const ended = new AbortController();
    const headers = { "content-type": "application/json" };
    /** The session and the node of the stream, once they are known. */
    let stream = null;
    /** Commands keep their order: each request waits for the one before. */
    let sent = Promise.resolve();

    async function post(path, body) {
      const response = await fetch(new URL(path, base), { method: "POST", headers, body, signal: ended.signal });
      if (!response.ok) throw new Error(`${response.status} of ${path}`);
      return response;
    }

    async function read(first) {
      const response = await post("http_stream", first);
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done) throw new Error("the stream ended");
        const lines = (rest + value).split("\n");
        rest = lines.pop();
        if (lines.length > 0 && !ended.signal.aborted) on.frame(lines.join("\n"));
      }
    }

    function lost({ message }) {
      if (ended.signal.aborted) return;
      ended.abort();
      on.close(0, message);
    }

    function send(data) {
      if (stream) sent = sent.then(() => post("../emulation", JSON.stringify({ ...stream, data })));
      (stream ? sent : read(data)).catch(lost);
    }

    queueMicrotask(() => ended.signal.aborted || on.open());
    return { send, close: () => ended.abort(), established: (name) => (stream = name) };
  };
}
