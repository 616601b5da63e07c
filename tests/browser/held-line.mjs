// A TCP relay between the browser and the server that can delay the data that the server sends.

import net from "node:net";
import { once } from "node:events";

/** A TCP relay to `port`. It delays WebSocket data on demand, in the direction of the browser. */
export class HeldLine {
  #server;
  #sockets = new Set();
  /** Delay of data from the server, in ms. */
  holdMs = 0;

  static async to(port) {
    const line = new HeldLine();
    line.#server = net.createServer((browser) => line.#relay(browser, port));
    line.#server.listen(0, "127.0.0.1");
    await once(line.#server, "listening");
    line.origin = `http://127.0.0.1:${line.#server.address().port}`;
    return line;
  }

  #relay(browser, port) {
    const server = net.connect(port, "127.0.0.1");
    let isSocket = false;
    for (const socket of [browser, server]) {
      this.#sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        this.#sockets.delete(socket);
        browser.destroy();
        server.destroy();
      });
    }
    browser.on("data", (data) => {
      isSocket ||= data.includes("Upgrade: websocket");
      server.write(data);
    });
    // One timer per chunk keeps the order, since all delays are equal.
    server.on("data", (data) => {
      if (isSocket && this.holdMs > 0) setTimeout(() => browser.writable && browser.write(data), this.holdMs);
      else browser.write(data);
    });
  }

  close() {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }
}
