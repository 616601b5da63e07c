// A scripted server: the test sees every command, and decides when and how to answer.

/** Lets all pending promise callbacks run. */
export const settled = () => new Promise((resolve) => setImmediate(resolve));

const { setTimeout, clearTimeout } = globalThis;
const { now: dateNow } = Date;
const { random } = Math;
const timers = new Map();
let now = 0;
let lastTimer = 0;

/**
 * Replaces the clock with a fake one, and fixes `Math.random` at 0.5, so that every jittered delay is half its maximum.
 */
export function stopTime() {
  now = 1_800_000_000_000;
  timers.clear();
  globalThis.setTimeout = (run, ms = 0) => timers.set(++lastTimer, { at: now + ms, run }) && lastTimer;
  globalThis.clearTimeout = (timer) => timers.delete(timer);
  Date.now = () => now;
  Math.random = () => 0.5;
}

export function startTime() {
  Object.assign(globalThis, { setTimeout, clearTimeout });
  Date.now = dateNow;
  Math.random = random;
}

/** Advances the fake clock, and runs due timers in order. */
export function tick(ms) {
  const end = now + ms;
  for (;;) {
    const due = [...timers].filter(([, { at }]) => at <= end).sort(([, a], [, b]) => a.at - b.at)[0];
    if (!due) break;
    timers.delete(due[0]);
    now = due[1].at;
    due[1].run();
  }
  now = end;
}

/** A transport whose remote end is controlled by the test. */
export function scripted() {
  const sockets = [];
  const server = {
    sockets,
    get socket() {
      return sockets.at(-1);
    },
    transport(url, on) {
      const socket = {
        url,
        on,
        sent: [],
        isClosed: false,
        send(frame) {
          socket.sent.push(...frame.split("\n").map((line) => JSON.parse(line)));
        },
        close: () => (socket.isClosed = true),
        /** Sends messages to the client in one frame. */
        say: (...messages) => socket.isClosed || on.frame(messages.map((one) => JSON.stringify(one)).join("\n")),
        /** The latest command of a kind. */
        last: (kind) => socket.sent.findLast((command) => kind in command),
        /** Answers the latest command of a kind. */
        answer: (kind, reply, ...more) => socket.say({ id: socket.last(kind).id, [kind]: reply }, ...more),
        call: (method) => socket.sent.findLast(({ rpc }) => rpc?.method === method),
        answerCall: (method, data) => socket.say({ id: socket.call(method).id, rpc: { data } }),
        refuseCall: (method, error) => socket.say({ id: socket.call(method).id, error }),
      };
      sockets.push(socket);
      return socket;
    },
    /** Opens the latest socket and answers its connect command. */
    accept(subs = {}, ...more) {
      server.socket.on.open();
      server.socket.answer("connect", { client: "c", ping: 25, pong: true, subs }, ...more);
    },
    push: (channel, data, offset) => ({ push: { channel, pub: { data, ...(offset && { offset }) } } }),
  };
  return server;
}
