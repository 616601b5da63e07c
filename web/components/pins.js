// Posts that their author has pinned to the profile: the item of the menu, and what the profile shows first.

import { h, show } from "../dom.js";
import { tm } from "../i18n/more.js";
import { icon } from "../icons.js";
import { PostCard } from "./post.js";
import { doWithUndo } from "./undo.js";

const MAX_PINS = 5;
/** How long a menu waits for what is pinned; then it opens without the item. */
const PATIENCE_MS = 300;

/** Client → the ids of the posts that its user has pinned, as far as they were read. */
const known = new WeakMap();

/** Takes over what the user's own profile says. */
export const notePins = ({ client }, ids = []) => void known.set(client, ids ?? []);

async function readPins(app) {
  const { client, session } = app;
  const { pinned } = await client.connection.rpc("users.get", { id: session.user });
  notePins(app, pinned);
  return known.get(client);
}

/** The item that pins a post of the user's own, or unpins it; null if it is not known which. */
export async function pinItem(app, { id }) {
  const late = new Promise((resolve) => setTimeout(() => resolve(null), PATIENCE_MS));
  const pinned = known.get(app.client) ?? (await Promise.race([readPins(app).catch(() => null), late]));
  if (!pinned) return null;
  const isPinned = pinned.includes(id);
  const set = async (wanted) => {
    // Another tab may have changed it.
    const others = (await readPins(app)).filter((one) => one !== id);
    const ids = wanted ? [id, ...others] : others;
    const { pinned: stored } = await app.client.connection.rpc("users.update", { pinned: ids });
    notePins(app, stored);
    app.relations.emit(app.session.user, "pin");
  };
  const run = () => {
    if (!isPinned && known.get(app.client).length >= MAX_PINS) return app.toast(tm("pin.most", { n: MAX_PINS }));
    return doWithUndo(app, () => set(!isPinned), tm(isPinned ? "unpinned" : "pinned.done"), () => set(isPinned));
  };
  return { label: tm(isPinned ? "unpin" : "pin"), testid: isPinned ? "unpin" : "pin", run };
}

/** The pinned posts of a profile, above the others. */
export class PinnedPosts {
  #app;
  #cards = new Map();
  #ids = null;
  #stops;
  #list = h("div");
  element = h(
    "section",
    { class: "card feed pinned", hidden: true, "aria-label": tm("pinned"), data: { testid: "pinned" } },
    h("p", { class: "meta", "aria-hidden": "true" }, icon("pin"), tm("pinned")),
    this.#list,
  );

  constructor(app) {
    this.#app = app;
    const { client, favourites, reposts } = app;
    const refresh = () => {
      for (const [id, { post }] of this.#cards) this.#change(id, post);
    };
    this.#stops = [
      client.likes.on("change", refresh),
      client.likes.on("settled", ({ id, liked, likes }) => this.#change(id, { liked, likes })),
      client.people.on("change", refresh),
      favourites.on(refresh),
      reposts.on(refresh),
    ];
  }

  close() {
    for (const stop of this.#stops) stop();
  }

  /** Reads and shows them, in the order of their ids. */
  async read(wanted) {
    const ids = wanted ?? [];
    const { connection, people } = this.#app.client;
    if (this.#ids === String(ids)) return;
    this.#ids = String(ids);
    const page = ids.length > 0 ? await connection.rpc("posts.many", { ids }).catch(() => null) : { items: [] };
    if (this.#ids !== String(ids)) return;
    // What failed is asked for again with the next change.
    if (!page) return void (this.#ids = null);
    people.add(page.people);
    const posts = ids.map((id) => page.items.find((post) => post.id === id)).filter(Boolean);
    this.#cards.clear();
    for (const post of posts) {
      this.#cards.set(post.id, { post, card: new PostCard(this.#app, this.#entry(post), this) });
    }
    this.#render();
  }

  /** What the menu of a post has done, or the channel of the profile says. */
  apply({ type, id, post }) {
    if (type === "edited") this.#change(post.id, post);
    if (type !== "gone" || !this.#cards.delete(id)) return;
    this.#render();
  }

  #render() {
    this.#list.replaceChildren(...[...this.#cards.values()].map(({ card }) => card.element));
    show(this.element, this.#cards.size > 0);
  }

  #change(id, change) {
    const shown = this.#cards.get(id);
    if (!shown) return;
    shown.post = { ...shown.post, ...change };
    shown.card.update(this.#entry(shown.post));
  }

  #entry(post) {
    const { likes, liked } = this.#app.client.likes.view(post);
    return { key: `pinned-${post.id}`, id: post.id, post: { ...post, likes, liked }, state: "stored" };
  }
}
