// Posts in the order of a list that is not by their age (favourites, what somebody liked), in the form of a timeline.

import { Emitter } from "./emitter.js";

const PAGE = 20;

export class PostPages {
  #app;
  #source;
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

  /**
   * `source` is the operation that lists them: `{method, params}`. `post(item)` finds the post of an item, and
   * `isShown(post)` says whether it still belongs to the list.
   */
  constructor(app, { post = (item) => item, isShown = () => true, ...source }) {
    this.#app = app;
    this.#source = { ...source, post, isShown };
    const patch = (id, more) => this.#patch(id, more);
    this.#stops = [
      app.client.likes.on("change", (id) => patch(id, {})),
      app.client.likes.on("settled", ({ id, liked, likes }) => patch(id, { liked, likes })),
      app.favourites.on(() => this.#changed()),
    ];
    this.reload();
  }

  get entries() {
    this.#entries ??= this.#posts
      .filter((post) => this.#source.isShown(post))
      .map((post) => {
        const { likes, liked } = this.#app.client.likes.view(post);
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
      const { method, params, post } = this.#source;
      const input = { ...params, limit: PAGE, ...(this.#cursor && { cursor: this.#cursor }) };
      const page = await this.#app.client.connection.rpc(method, input);
      this.#app.client.people.add(page.people);
      const known = new Set(this.#posts.map(({ id }) => id));
      // Posts that the reader can no longer see have no body, and are left out.
      this.#posts.push(...page.items.map(post).filter((one) => one && !known.has(one.id)));
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
