// A proxy that serves a Feedline server below a path of its own host.

import http from "node:http";
import net from "node:net";
import { once } from "node:events";

/** A proxy that serves `/feed/` from the server at `port`. */
export class PathProxy {
  #server;
  #port;
  #keeps;
  #sockets = new Set();
  base = "/feed";
  /** The paths of requests outside of the base path, which it refuses. */
  outside = [];
  /** The paths of requests below it. */
  inside = [];
  /** Changes the path of a request, if a test sets it. */
  rewrite = (path) => path;
  /** How long a request waits before it is passed on, in ms. */
  delayMs = () => 0;

  /** `keeps`: whether it passes the whole path on, or removes the base path and names it in a header. */
  static async to(port, { keeps }) {
    const proxy = new PathProxy();
    proxy.#port = port;
    proxy.#keeps = keeps;
    proxy.#server = http.createServer((request, response) => proxy.#serve(request, response));
    proxy.#server.on("upgrade", (request, socket) => proxy.#upgrade(request, socket));
    proxy.#server.on("connection", (socket) => {
      proxy.#sockets.add(socket);
      socket.on("close", () => proxy.#sockets.delete(socket));
    });
    proxy.#server.listen(0, "127.0.0.1");
    await once(proxy.#server, "listening");
    proxy.origin = `http://127.0.0.1:${proxy.#server.address().port}`;
    return proxy;
  }

  /** The request for the server: its path and headers; null outside of the base path. */
  #passed({ url, headers }) {
    if (!url.startsWith(`${this.base}/`)) {
      this.outside.push(url);
      return null;
    }
    this.inside.push(url);
    const path = this.rewrite(url);
    if (this.#keeps) return { path, headers };
    return { path: path.slice(this.base.length), headers: { ...headers, "x-forwarded-prefix": this.base } };
  }

  #serve(request, response) {
    const passed = this.#passed(request);
    if (!passed) return response.writeHead(404).end();
    const delay = this.delayMs(request.url);
    if (delay > 0) setTimeout(() => this.#forward(request, response, passed), delay);
    else this.#forward(request, response, passed);
  }

  #forward(request, response, passed) {
    const options = { host: "127.0.0.1", port: this.#port, method: request.method, ...passed, agent: false };
    const upstream = http.request(options, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    upstream.on("error", () => response.destroy());
    response.on("close", () => upstream.destroy());
    request.pipe(upstream);
  }

  #upgrade(request, browser) {
    const passed = this.#passed(request);
    if (!passed) return browser.destroy();
    const server = net.connect(this.#port, "127.0.0.1");
    const lines = Object.entries(passed.headers).map(([name, value]) => `${name}: ${value}\r\n`);
    server.write(`GET ${passed.path} HTTP/1.1\r\n${lines.join("")}\r\n`);
    for (const [from, to] of [[browser, server], [server, browser]]) {
      from.on("error", () => {});
      from.on("close", () => to.destroy());
      from.pipe(to);
    }
  }

  close() {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }
}
