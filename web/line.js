// The state of the connection as the page shows it; told again every second while it is not live.

import { Emitter } from "./emitter.js";

export class Line extends Emitter {
  #stops;
  state;
  /** How often the connection came back. */
  recoveries = 0;
  /** The last recovery: `{lostFor, recovered, missed, at}` or null. */
  resumed = null;

  constructor(connection) {
    super();
    this.state = connection.state;
    const timer = setInterval(() => this.state.name !== "live" && this.emit(), 1000);
    this.#stops = [
      connection.on("state", (state) => {
        this.state = state;
        this.emit();
      }),
      connection.on("resumed", (resumed) => {
        this.recoveries += 1;
        this.resumed = { ...resumed, at: Date.now() };
        this.emit();
      }),
      () => clearInterval(timer),
    ];
  }

  close() {
    for (const stop of this.#stops) stop();
  }
}
