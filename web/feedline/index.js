// The Feedline client: one signed-in user, one connection, and stores that a page shows.

import { remember } from "./bounded.js";
import { Connection } from "./connection.js";
import { FeedlineError } from "./errors.js";
import { Likes } from "./likes.js";
import { Notifications } from "./notifications.js";
import { ItemList, Pages } from "./pages.js";
import { People } from "./people.js";
import { ReadMarker } from "./readmarker.js";
import { Timeline, newKey } from "./timeline.js";
import { webSocket } from "./transport.js";

export { Connection, FeedlineError, ItemList, Pages, newKey, remember, webSocket };

export class Feedline {
  open = () => this.connection.open();

  /** Goes offline. `open` recovers what happens meanwhile. */
  close = () => this.connection.close();

  /** A profile, a topic or any list of posts. Close it in the end. @param {import("./types.js").Source} source */
  openTimeline = (source) => new Timeline(this, source);

  /** @param {import("./types.js").FeedlineOptions} options */
  constructor({ user, keep = 500, ...options }) {
    this.user = user;
    this.keep = keep;
    this.connection = new Connection(options);
    this.likes = new Likes(this);
    this.people = new People(this);
    this.timeline = this.openTimeline({ method: "timeline.read", channel: `timeline:${user}`, byServer: true });
    this.notifications = new Notifications(this);
    this.readMarker = new ReadMarker(this);
  }

}
