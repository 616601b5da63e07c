// The state of the connection as the page shows it; repeated every second while it is not live,
// and for a moment after it came back.

import { Emitter } from "./emitter.js";

/** For how long the page says that it caught up. */
export const RECOVERED_MS = 8000;

export class Line extends Emitter {
  #stops;
  #lastMark = "";
  state;
  /** How often the connection came back. */
  recoveries = 0;
  /** The last recovery, as the timeline marks it on the rail: `{kind, lostFor, posts, at}`, or null. */
  resumed = null;

  constructor({ connection, timeline }) {
    super();
    this.state = connection.state;
    const timer = setInterval(() => (this.state.name !== "live" || this.isRecovered) && this.emit(), 1000);
    this.#stops = [
      connection.on("state", (state) => {
        this.state = state;
        this.emit();
      }),
      timeline.on("change", () => this.#marked(timeline.marks[0])),
      () => clearInterval(timer),
    ];
  }

  /** Whether the connection came back a moment ago; the last tick says that it no longer did. */
  get isRecovered() {
    return this.resumed !== null && Date.now() - this.resumed.at < RECOVERED_MS + 2000;
  }

  close() {
    for (const stop of this.#stops) stop();
  }

  /** A mark is new, or more posts of the recovery have come. */
  #marked(mark) {
    const now = mark ? `${mark.key} ${mark.posts}` : "";
    if (now === this.#lastMark) return;
    if (mark.key !== this.resumed?.key) this.recoveries += 1;
    this.#lastMark = now;
    this.resumed = { ...mark };
    this.emit();
  }
}
