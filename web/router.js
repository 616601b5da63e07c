// Addresses and views. Addresses are paths: they can be sent to others and survive any server that knows them. The
// server answers those below with the page (`is_view` in `src/http/page/mod.rs`).
//
// A view that is left stays in memory (the last few), so that back and forward show it as it was, at its place.

import { BASE } from "./base.js";
import { newKey } from "./feedline/timeline.js";
import { closeLayers, untilReturned } from "./layers.js";

const KEPT_VIEWS = 8;

/** The views whose address is their name. */
const PLAIN = [
  "explore",
  "topics",
  "notifications",
  "requests",
  "favourites",
  "settings",
  "moderation",
  "sign-in",
  "sign-up",
];

const part = encodeURIComponent;

/** The addresses of the views. */
export const paths = {
  home: () => `${BASE}/`,
  post: (id, comment, part = "") => `${BASE}/post/${id}${part && `/${part}`}${comment ? `?comment=${comment}` : ""}`,
  user: (id, tab) => `${BASE}/user/${part(id)}${tab ? `/${tab}` : ""}`,
  topic: (name) => `${BASE}/topic/${part(name)}`,
  topics: () => `${BASE}/topics`,
  explore: () => `${BASE}/explore`,
  notifications: () => `${BASE}/notifications`,
  favourites: () => `${BASE}/favourites`,
  search: (query) => `${BASE}/search${query ? `?q=${part(query)}` : ""}`,
  requests: () => `${BASE}/requests`,
  settings: () => `${BASE}/settings`,
  push: () => `${BASE}/settings/push`,
  list: (id) => `${BASE}/?list=${id}`,
  lists: (id) => `${BASE}/settings/lists${id ? `/${id}` : ""}`,
  gate: (name) => `${BASE}/${name}`,
};

/** Takes an address apart: the view's name, and what it shows. */
export function parse(location) {
  const [name = "", ...rest] = location.pathname.slice(BASE.length + 1).split("/").map(decode);
  const params = rest.filter(Boolean);
  const query = new URLSearchParams(location.search);
  if (name === "" && params.length === 0) {
    const id = Number(query.get("list"));
    return id > 0 ? { name: "list", params: { id } } : { name: "home", params: {} };
  }
  if (name === "post" && params.length === 1 && /^\d{1,16}$/.test(params[0]))
    return { name, params: { id: Number(params[0]), comment: Number(query.get("comment")) || null } };
  if (name === "post" && params[1] === "quotes") return { name: "quotes", params: { id: Number(params[0]) } };
  if (name === "user" && params.length >= 1 && params.length <= 2)
    return { name, params: { id: params[0], tab: params[1] ?? "posts" } };
  if (name === "topic" && params.length === 1) return { name, params: { name: params[0] } };
  if (name === "search") return { name, params: { query: query.get("q") ?? "" } };
  if (name === "settings" && params.length === 1 && params[0] === "push") return { name: "push", params: {} };
  if (name === "settings" && params[0] === "lists")
    return params[1] ? { name: "lists-one", params: { id: Number(params[1]) } } : { name: "lists", params: {} };
  if (PLAIN.includes(name) && params.length === 0) return { name, params: {} };
  return { name: "not-found", params: {} };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Shows views by address, and keeps the places of those that were left. */
export class Router {
  #show;
  #prepare;
  /** Key of the history's entry → `{view, scroll, focused}`, the one left last at the end. */
  #kept = new Map();
  #current = null;

  /**
   * @param {(route: {name: string, params: object}, view: object | null) => object} show Shows a route, with the view
   *   that was kept for it or null. Returns the view: an object that may have `resume()`, `pause()` and `stop()`.
   * @param {(route: {name: string, params: object}) => Promise<object | null> | null} prepare What is to be awaited
   *   before a route can be shown; null: it cannot.
   */
  constructor(show, prepare) {
    this.#show = show;
    this.#prepare = prepare;
    history.scrollRestoration = "manual";
    addEventListener("popstate", () => this.#popped());
    addEventListener("scroll", () => this.#scrolled(), { passive: true });
    addEventListener("pagehide", () => this.#remember());
    document.addEventListener("click", (event) => this.#clicked(event));
  }

  start() {
    // The layers of before a reload are gone.
    const { layer, ...state } = history.state ?? {};
    if (layer) history.replaceState(state, "");
    this.#open(false);
  }

  /** Goes to an address; `replace` forgets the one that is left. */
  go(path, { replace = false } = {}) {
    const returned = untilReturned();
    if (returned) return void returned.then(() => this.go(path, { replace }));
    // The entry of a layer becomes that of the view: Back does not lead to what is closed.
    replace ||= Boolean(history.state?.layer);
    closeLayers();
    if (path === location.pathname + location.search && !replace) return this.#top();
    this.#remember();
    const state = { key: newKey() };
    if (replace) history.replaceState(state, "", path);
    else history.pushState(state, "", path);
    this.#open(true);
  }

  /** Forgets all views: they belonged to somebody else, or speak another language. */
  clear() {
    for (const view of new Set([...this.#kept.values()].map((kept) => kept.view))) view.stop?.();
    this.#kept.clear();
    this.#current = null;
  }

  /** Shows the current address again, from new. */
  refresh() {
    const scroll = scrollY;
    this.clear();
    this.#open(false);
    scrollTo(0, scroll);
  }

  /** Back and forward: between views, or from a layer to its view. */
  #popped() {
    closeLayers(history.state?.layer);
    if (!this.#current || history.state?.key !== this.#current.key) this.#open(false);
  }

  #top() {
    scrollTo({ top: 0 });
    this.#current?.view.top?.();
  }

  #open(fresh) {
    if (!history.state?.key) history.replaceState({ ...history.state, key: newKey() }, "");
    const { key, scroll: stored = 0 } = history.state;
    const prepared = this.#prepare(parse(location));
    if (prepared) return void prepared.then((done) => done && history.state?.key === key && this.#open(fresh));
    if (this.#current && this.#current.key !== key) this.#current.view.pause?.();
    const kept = this.#kept.get(key) ?? null;
    this.#current = null;
    const view = this.#show(parse(location), kept?.view ?? null);
    const place = kept ?? { view, scroll: fresh ? 0 : stored, focused: null };
    place.view = view;
    this.#kept.delete(key);
    this.#kept.set(key, place);
    this.#trim();
    const { scroll } = place;
    scrollTo(0, scroll);
    this.#current = { key, view };
    if (place.focused?.isConnected) place.focused.focus({ preventScroll: true });
    // After a reload the place can be reached once there is something to scroll.
    if (!kept && scroll > 0) view.ready?.then(() => this.#current?.view === view && scrollTo(0, scroll));
    view.resume?.();
  }

  /** The place of the current view; when the browser goes back, it has left before anybody can ask. */
  #scrolled() {
    const place = this.#current && this.#kept.get(this.#current.key);
    if (place && history.state?.key === this.#current.key) place.scroll = scrollY;
  }

  /** Notes the place of the current view: in memory, and for a reload. */
  #remember() {
    const place = this.#current && this.#kept.get(this.#current.key);
    if (!place) return;
    place.scroll = scrollY;
    place.focused = document.activeElement;
    history.replaceState({ ...history.state, scroll: scrollY }, "");
  }

  #trim() {
    for (const [key, { view }] of this.#kept) {
      if (this.#kept.size <= KEPT_VIEWS) return;
      this.#kept.delete(key);
      if (![...this.#kept.values()].some((other) => other.view === view)) view.stop?.();
    }
  }

  #clicked(event) {
    const link = event.target.closest?.("a[href]");
    if (!link || event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || link.target) return;
    const url = new URL(link.href);
    if (!url.href.startsWith(`${location.origin}${BASE}/`) || link.getAttribute("href").startsWith("#")) return;
    event.preventDefault();
    this.go(url.pathname + url.search);
  }
}
