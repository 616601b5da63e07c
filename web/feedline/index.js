// The Feedline client: one signed-in user, one connection, and stores that a page shows.

import { Connection } from "./connection.js";
import { FeedlineError } from "./errors.js";
import { Likes } from "./likes.js";
import { Notifications } from "./notifications.js";
import { People } from "./people.js";
import { ReadMarker } from "./readmarker.js";
import { Timeline, newKey } from "./timeline.js";
import { webSocket } from "./transport.js";

export { Connection, FeedlineError, newKey, webSocket };

export class Feedline {
  #context;

  /** @param {import("./types.js").FeedlineOptions} options */
  constructor({ user, keep = 500, ...options }) {
    const connection = new Connection(options);
    this.user = user;
    this.connection = connection;
    this.likes = new Likes(connection, user);
    this.people = new People(connection);
    this.#context = { connection, likes: this.likes, people: this.people, user, keep };
    this.timeline = this.openTimeline({ method: "timeline.read", channel: `timeline:${user}`, byServer: true });
    this.notifications = new Notifications(connection, user);
    this.readMarker = new ReadMarker(connection, user, this.timeline);
  }

  open() {
    this.connection.open();
  }

  /** Goes offline. `open` recovers what happens meanwhile. */
  close() {
    this.connection.close();
  }

  /** A profile, a topic or any list of posts. Close it in the end. @param {import("./types.js").Source} source */
  openTimeline(source) {
    return new Timeline(this.#context, source);
  }
}
