// The caller's favourite posts in the form of a timeline: by the time at which they were added, not by their age.

import { Emitter } from "./emitter.js";

const PAGE = 20;

export class FavouritePosts {
  #app;
  #changes = new Emitter();
  #posts = [];
  #cursor = null;
  #entries = null;
  #stops;
  state = "loading";
  error = null;
  marks = [];
  waiting = 0;
  atTop = true;
  isLoadingOlder = false;

  constructor(app) {
    this.#app = app;
    const patch = (id, more) => this.#patch(id, more);
    this.#stops = [
      app.client.likes.on("change", (id) => patch(id, {})),
      app.client.likes.on("settled", ({ id, liked, likes }) => patch(id, { liked, likes })),
      app.favourites.on(() => this.#changed()),
    ];
    this.reload();
  }

  /** Posts whose star was taken away leave; those that the reader can no longer see have no body, and are left out. */
  get entries() {
    const { favourites, client } = this.#app;
    this.#entries ??= this.#posts
      .filter((post) => favourites.has(post))
      .map((post) => {
        const { likes, liked } = client.likes.view(post);
        return { key: String(post.id), id: post.id, post: { ...post, likes, liked }, state: "stored" };
      });
    return this.#entries;
  }

  get hasOlder() {
    return this.#cursor !== null;
  }

  on(type, listener) {
    return this.#changes.on(listener);
  }

  reload() {
    this.#posts = [];
    this.#cursor = null;
    return this.#read();
  }

  loadOlder() {
    return this.#read();
  }

  async showWaiting() {}

  watch() {}

  async delete(id) {
    await this.#app.client.timeline.delete(id);
    this.#posts = this.#posts.filter((post) => post.id !== id);
    this.#changed();
  }

  close() {
    for (const stop of this.#stops) stop();
  }

  async #read() {
    if (this.isLoadingOlder) return;
    this.isLoadingOlder = true;
    try {
      const params = { type: "post", limit: PAGE, ...(this.#cursor && { cursor: this.#cursor }) };
      const page = await this.#app.client.connection.rpc("favourites.list", params);
      this.#app.client.people.add(page.people);
      const known = new Set(this.#posts.map(({ id }) => id));
      const posts = page.items.map(({ post }) => post).filter((post) => post && !known.has(post.id));
      this.#posts.push(...posts.map((post) => ({ ...post, favourited: true })));
      this.#cursor = page.next ?? null;
      this.state = "ready";
    } catch (error) {
      this.error = error;
      if (this.#posts.length === 0) this.state = "failed";
    }
    this.isLoadingOlder = false;
    this.#changed();
  }

  #patch(id, more) {
    const at = this.#posts.findIndex((post) => post.id === id);
    if (at < 0) return;
    this.#posts[at] = { ...this.#posts[at], ...more };
    this.#changed();
  }

  #changed() {
    this.#entries = null;
    queueMicrotask(() => this.#changes.emit());
  }
}
