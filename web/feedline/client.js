// What the page itself needs: one signed-in user, one connection, and the stores of its frame.

import { Connection } from "./connection.js";
import { Likes } from "./likes.js";
import { Notifications } from "./notifications.js";
import { People } from "./people.js";
import { ReadMarker } from "./readmarker.js";
import { Timeline } from "./timeline.js";
/** @import { FeedlineOptions, PostListName, Source } from "./types.js" */

export class Client {
  open = () => this.connection.open();
  /** Goes offline. `open` recovers what happens meanwhile. */
  close = () => this.connection.close();
  /** A profile, a topic or any list of posts. Close it in the end. @param {Source<PostListName>} source */
  openTimeline = (source) => new Timeline(this, source);
  /** @param {FeedlineOptions} options */
  constructor({ user, keep = 500, ...options }) {
    this.user = user;
    this.keep = keep;
    this.connection = new Connection({ user, ...options });
    this.likes = new Likes(this);
    this.people = new People(this);
    this.timeline = this.openTimeline({ method: "timeline.read", channel: `timeline:${user}`, byServer: true });
    this.notifications = new Notifications(this);
    this.readMarker = new ReadMarker(this);
  }
}
