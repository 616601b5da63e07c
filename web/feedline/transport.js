// How frames travel. The connection knows nothing of WebSockets: another transport is another factory.

/** @param {typeof globalThis.WebSocket} [WebSocket] @returns {import("./types.js").TransportFactory} */
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
    return { send: (frame) => socket.send(frame), close };
  };
}
