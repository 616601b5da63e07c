// The views of a signed-in user, by name. Home is there at once; the code of the others is loaded when they are.

import { h } from "../dom.js";
import { t } from "../i18n/index.js";
import { failure } from "../components/states.js";
import { homeView } from "./home.js";

const LOADERS = {
  post: () => import("./thread.js").then(({ threadView }) => threadView),
  user: () => import("./profile.js").then(({ profileView }) => profileView),
  explore: () => import("./discover.js").then(({ exploreView }) => exploreView),
  topics: () => import("./discover.js").then(({ topicsView }) => topicsView),
  topic: () => import("./lists.js").then(({ topicView }) => topicView),
  notifications: () => import("./notifications.js").then(({ notificationsView }) => notificationsView),
  favourites: () => import("./lists.js").then(({ favouritesView }) => favouritesView),
  search: () => import("./discover.js").then(({ searchView }) => searchView),
  settings: () => import("./settings.js").then(({ settingsView }) => settingsView),
};
const notFound = () => import("./not-found.js").then(({ notFoundView }) => notFoundView);

/** Names of views that are words already. */
const TITLES = ["explore", "topics", "notifications", "favourites", "search", "settings"];

/**
 * Makes the view of a route: `{title, element}`, and if it needs them `feed` (for the keyboard), `compose`, `ready`,
 * `top()`, `resume()` (it is shown), `pause()` (it is left, and kept) and `stop()` (it is forgotten).
 */
export function signedInViews(app, { name, params }) {
  // Home is one view, however often it is in the history: it has what was begun to write, and the timeline.
  if (name === "home") return (app.home ??= homeView(app));
  return new LoadedView(LOADERS[name] ?? notFound, (make) => make(app, params), TITLES.includes(name) ? t(name) : "");
}

/** A view whose code may still be on its way. */
class LoadedView {
  #view = null;
  #state = "shown";
  element = h("div");
  ready;
  title;

  constructor(load, make, title) {
    this.title = title;
    this.ready = this.#load(load, make);
  }

  get feed() {
    return this.#view?.feed;
  }

  top() {
    this.#view?.top?.();
  }

  resume() {
    this.#state = "shown";
    this.#view?.resume?.();
  }

  pause() {
    this.#state = "left";
    this.#view?.pause?.();
  }

  stop() {
    this.#state = "stopped";
    this.#view?.stop?.();
  }

  async #load(load, make) {
    try {
      const factory = await load();
      if (this.#state === "stopped") return;
      const view = make(factory);
      this.#view = view;
      this.element.replaceChildren(view.element);
      view.onTitle = () => {
        this.title = view.title;
        this.onTitle?.();
      };
      view.onTitle();
      if (this.#state === "shown") view.resume?.();
      await view.ready;
    } catch (error) {
      const retry = () => this.#load(load, make);
      this.element.replaceChildren(h("div", { class: "view" }, h("section", { class: "card" }, failure(error, retry))));
    }
  }
}
