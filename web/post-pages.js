// Posts in the order of a list that is not by their age (favourites, what somebody liked), in the form of a timeline.

import { ItemList, Pages } from "./feedline/pages.js";

export class PostPages extends Pages {
  #app;
  #isShown;
  marks = [];
  waiting = 0;
  atTop = true;

  /**
   * `source` is the operation that lists them: `{method, params}`. `post(item)` finds the post of an item, and
   * `isShown(post)` says whether it still belongs to the list.
   */
  constructor(app, { post = (item) => item, isShown = () => true, ...source }) {
    super(app.client, source, () => new Posts(post));
    this.#app = app;
    this.#isShown = isShown;
    const { likes } = app.client;
    this.stops.push(
      likes.on("change", (id) => this.#patch(id, {})),
      likes.on("settled", ({ id, liked, likes: number }) => this.#patch(id, { liked, likes: number })),
      app.favourites.on(() => this.changed()),
      app.reposts.on(() => this.changed()),
      app.client.connection.on("state", ({ name }) => name === "live" && this.#refreshLikes()),
    );
    this.start();
  }

  get entries() {
    return this.list.items.filter(this.#isShown).map((post) => {
      const { likes, liked } = this.#app.client.likes.view(post);
      return { key: String(post.id), id: post.id, post: { ...post, likes, liked }, state: "stored" };
    });
  }

  async showWaiting() {}

  watch() {}

  apply(event) {
    if (event.type === "edited") {
      const { liked, favourited, ...post } = event.post;
      this.#patch(post.id, post);
    }
    if (event.type === "gone") this.list.items = this.list.items.filter((post) => post.id !== event.id);
    this.changed();
  }

  #refreshLikes() {
    this.#app.client.likes.refresh(this.list.items.map(({ id }) => id));
  }

  #patch(id, more) {
    if (!this.list.items.some((post) => post.id === id)) return;
    this.list.items = this.list.items.map((post) => (post.id === id ? { ...post, ...more } : post));
    this.changed();
  }
}

/** Posts that the reader can no longer see have no body, and are left out. */
class Posts extends ItemList {
  #post;

  constructor(post) {
    super();
    this.#post = post;
  }

  take(page) {
    return super.take({ ...page, items: page.items.map(this.#post).filter(Boolean) });
  }
}
