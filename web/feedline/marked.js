// What the user marks, such as favourites and follows: shown at once, and taken back if the server refuses.

import { remember } from "./bounded.js";
import { FeedlineError } from "./errors.js";
import { ItemList, Pages } from "./pages.js";

const MAX_SET = 1000;

/** It is read with the first `reload()` or `ready()`, and anew after a lost connection.
 * @template {{id: string}} Item @extends {Pages<ItemList<Item>>} */
export class Marked extends Pages {
  /** @type {Map<string, boolean>} id → what was set here last, ahead of what pages say */ #set = new Map();
  #write;
  /** @param {import("./client.js").Client} client @param {import("./types.js").Source} source
   * @param {(id: string, wanted: boolean) => Promise<unknown>} write stores it */
  constructor(client, source, write) {
    super(client, source, () => /** @type {ItemList<Item>} */ (new ItemList()));
    this.state = /** @type {Pages<any>["state"]} */ ("idle");
    this.#write = write;
    const resume = () => void (this.list.isRead && this.reload());
    this.stops.push(client.connection.on("state", ({ name }) => name === "live" && resume()));
  }
  /** As far as they were read, the latest first. */
  get items() { return this.list.items; }
  /** Whether it is marked; `known` is what a page said of it. @param {string | number} id */
  has(id, known = this.items.some((item) => item.id === String(id))) { return this.#set.get(String(id)) ?? known; }
  /** @param {string | number} id @returns {Promise<boolean>} whether it was stored; if not, "reverted" says why */
  add = (id) => this.#put(String(id), true);
  /** @param {string | number} id @returns {Promise<boolean>} as of `add` */
  remove = (id) => this.#put(String(id), false);
  /** @param {string} id @param {boolean} wanted */
  async #put(id, wanted) {
    this.#show(id, wanted);
    try {
      await this.client.connection.insist(async () => this.#set.get(id) === wanted && this.#write(id, wanted));
      if (this.list.isRead) await this.reload();
      return true;
    } catch (error) {
      this.#show(id, !wanted);
      this.emit("reverted", { id, error: FeedlineError.of(error) });
      return false;
    }
  }
  /** @param {string} id @param {boolean} isSet */
  #show(id, isSet) {
    remember(this.#set, id, isSet, MAX_SET);
    this.changed();
  }
}
