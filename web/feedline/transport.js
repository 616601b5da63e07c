// How frames travel. The connection knows nothing of WebSockets: another transport is another factory.

/** @param {typeof globalThis.WebSocket} [WebSocket] @returns {import("./types.js").TransportFactory} */
export function webSocket(WebSocket = globalThis.WebSocket) {
  return (url, on) => {
    const socket = new WebSocket(url.replace(/^http/, "ws"));
    // A closing socket still delivers what was under way, which belongs to no connection any more.
    let isClosed = false;
    socket.onopen = () => isClosed || on.open();
    socket.onmessage = ({ data }) => isClosed || on.frame(String(data));
    socket.onclose = ({ code, reason }) => isClosed || on.close(code, reason);
    // A close follows; without a listener, Node.js would end the process.
    socket.onerror = () => {};
    const close = () => {
      isClosed = true;
      socket.close();
    };
    return { send: (frame) => socket.send(frame), close };
  };
}
