// A live client with a scripted server.

import { Feedline } from "../../web/feedline/index.js";
import { scripted, settled, tick } from "./scripted.mjs";

export const [TIMELINE, NOTIFICATIONS] = ["timeline:ann", "notifications:ann"];
const blank = { author: "bo", likes: 0, comments: 0, favourites: 0 };
export const post = (id, more = {}) => ({ id, text: `post ${id}`, created_at: id, ...blank, ...more });
export const page = (ids, offset, next) => ({
  items: ids.map((id) => post(id, { liked: false })),
  people: { bo: { id: "bo", name: "Bo" } },
  position: { offset, epoch: "e" },
  ...(next && { next }),
  read: { id: 0, unread: 0 },
});
export const standing = (offset, more = {}) => ({ recoverable: true, offset, epoch: "e", ...more });
export const descending = (from, to) => Array.from({ length: from - to + 1 }, (_, i) => from - i);
export const shown = ({ timeline }) => timeline.entries.map(({ id, key }) => id || key);

/** Creates a live client that has read this page. */
export async function setUp(first = page([30, 20, 10], 3), options = {}) {
  const server = scripted();
  const { transport } = server;
  const feedline = new Feedline({ url: "ws://test/", user: "ann", token: "t", transport, ...options });
  feedline.open();
  server.accept({ [TIMELINE]: standing(first.position.offset), [NOTIFICATIONS]: standing(0) });
  await settled();
  server.socket.answerCall("timeline.read", first);
  server.socket.answerCall("notifications.list", { items: [], unread: 0, unseen: 0 });
  await settled();
  const push = async (channel, data, offset) => {
    server.socket.say(server.push(channel, data, offset));
    await settled();
  };
  const arrive = (id, offset, more) => push(TIMELINE, { type: "post", post: post(id, more) }, offset);
  /** Drops the connection, and reconnects. */
  const reconnect = async (timeline, notifications = { recovered: true, was_recovering: true }) => {
    feedline.connection.drop();
    await settled();
    tick(9_000);
    server.accept({ [TIMELINE]: timeline, [NOTIFICATIONS]: standing(0, notifications) });
    await settled();
  };
  return { server, feedline, push, arrive, reconnect };
}
