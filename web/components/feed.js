// A timeline on the page: posts on the rail, marks where the connection was lost, new posts behind a bar, older ones
// below. At most WINDOW posts are in the document, however many were loaded.

import { button, h, setText, show, slideIn, slideOut } from "../dom.js";
import { span } from "../format.js";
import { icon } from "../icons.js";
import { t } from "../i18n/index.js";
import { changesVisibility } from "../relations.js";
import { isOffline } from "./line-card.js";
import { inView, MarkCard, rowsOf } from "./rows.js";
import { PostCard } from "./post.js";
import { failure, showWhenSlow, skeletons } from "./states.js";

/** The most posts in the document, and by how many the window moves. */
const WINDOW = 160;
const STEP = 40;
/** How far from the window's edges it moves, in pixels. */
const AHEAD = 900;
const TOP = 80;
/** How long scrolling rests before the posts on screen are watched. */
const REST_MS = 300;

/** Shows a timeline of the client module, live. */
export class Feed {
  #app;
  #timeline;
  #empty;
  #cards = new Map();
  #heights = new Map();
  /** The key of the first row in the document while rows above it are left out. */
  #anchor = null;
  #rows = [];
  #shown = false;
  #stops = [];
  #frame = 0;
  /** Takes the skeletons away, as long as it loads. */
  #loaded = null;
  #isHeld = false;
  #watched = "";
  #rest = null;
  /** Of Home: the post up to which the reader had read when this visit began. */
  #readTo = 0;
  /** Whether the reader watches the top and has read all: what comes in then needs no mark. */
  #isWatching = false;
  /** The newest post that was read in this tab. */
  #readHere = 0;
  #spacer = h("div", { "aria-hidden": "true" });
  #list = h("div", { role: "group", data: { testid: "posts" } });
  #rail = h("div", { class: "rail", "aria-hidden": "true" });
  #bar = button({ class: "new-posts", data: { testid: "new-posts" }, onclick: () => this.#letIn() });
  #lost = h("div", { class: "node", data: { kind: "lost", testid: "lost" }, hidden: true }, h("span"));
  #end = h("div", { class: "feed-end" });
  #note = h("div", { data: { testid: "timeline-note" } });
  /** What the note shows: an error, "empty", null for nothing; undefined at first. */
  #noted = undefined;
  #place = h("div", { class: "new-posts-place", hidden: true });
  element = h("section", { class: "feed card" });

  /** `empty` makes what stands in for no posts; `label` names the list. */
  constructor(app, timeline, { label, empty, showsLine = false }) {
    this.#app = app;
    this.#timeline = timeline;
    this.#empty = empty;
    this.#list.setAttribute("aria-label", label);
    show(this.#bar, false);
    this.element.append(
      this.#place,
      this.#bar,
      this.#rail,
      this.#lost,
      this.#note,
      this.#spacer,
      this.#list,
      this.#end,
    );
    this.#stops = [
      timeline.on("change", () => this.#schedule()),
      app.client.people.on("change", () => this.#schedule()),
      app.favourites.on(() => this.#schedule()),
      app.reposts.on(() => this.#schedule()),
      app.client.likes.on("change", () => this.#schedule()),
      app.relations.on((id, verb) => this.#related(id, verb)),
    ];
    if (showsLine) this.#stops.push(app.line.on(() => this.#showLine()));
    if (this.#isHome) {
      const visibilityChanged = () => (document.hidden ? this.#beginVisit() : this.#watchVisible());
      document.addEventListener("visibilitychange", visibilityChanged);
      this.#stops.push(
        app.client.readMarker.on("change", () => this.#readElsewhere()),
        () => document.removeEventListener("visibilitychange", visibilityChanged),
      );
    }
    const moved = () => this.#moved();
    addEventListener("scroll", moved, { passive: true });
    this.#stops.push(() => removeEventListener("scroll", moved));
    this.#loaded = timeline.state === "loading" ? showWhenSlow(this.#note, skeletons) : null;
    this.#stops.push(() => this.#loaded?.());
    this.#render();
  }

  get #isHome() {
    return this.#timeline === this.#app.client?.timeline;
  }

  /** Back in the document: what changed meanwhile is shown, and places are measured again. */
  resume() {
    if (scrollY === 0) this.#anchor = null;
    if (this.#isHome) this.#beginVisit();
    this.#render();
    this.#moved();
  }

  /** Out of the document: what arrives waits behind the bar. */
  pause() {
    this.#timeline.atTop = false;
    this.#watch([]);
  }

  close() {
    cancelAnimationFrame(this.#frame);
    clearTimeout(this.#rest);
    for (const stop of this.#stops) stop();
  }

  /** Moves the focus to the next or previous post; answers whether there is one. */
  step(by) {
    const posts = [...this.#list.querySelectorAll("article")];
    const at = posts.findIndex((post) => post.contains(document.activeElement));
    const visible = posts.findIndex((post) => post.getBoundingClientRect().top >= TOP - 10);
    const next = posts[at < 0 ? Math.max(0, visible) : at + by];
    next?.focus({ preventScroll: true });
    next?.scrollIntoView({ block: "nearest" });
    if (next && next.getBoundingClientRect().top < TOP) scrollBy(0, next.getBoundingClientRect().top - TOP);
    return Boolean(next);
  }

  /** Changes of one frame are shown together. */
  #schedule() {
    if (!this.element.isConnected) return;
    if (document.hidden) return this.#render();
    this.#frame ||= requestAnimationFrame(() => this.#render());
  }

  #render() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    if (this.#loaded && this.#timeline.state !== "loading") {
      const loaded = this.#loaded;
      this.#loaded = null;
      this.#isHeld = true;
      loaded().then(() => {
        this.#isHeld = false;
        this.#schedule();
      });
    }
    if (this.#isHeld) return;
    const { entries, marks, state, waiting, error } = this.#timeline;
    if (this.#isWatching && this.#timeline.atTop && !document.hidden) {
      this.#readTo = Math.max(this.#readTo, ...entries.map(({ id }) => id));
    }
    this.#rows = rowsOf(entries, marks, { readTo: this.#readTo, me: this.#app.session?.user });
    const first = this.#first();
    const rows = this.#rows.slice(first, first + WINDOW);
    this.#reconcile(rows);
    this.#measureAbove(first);
    this.#showNote(state, error, entries);
    this.#showBar(waiting);
    this.#showEnd(first + rows.length < this.#rows.length);
    // A feed has articles.
    this.#list.setAttribute("role", rows.some(({ mark }) => !mark) ? "feed" : "group");
    show(this.#rail, entries.length > 0);
    if (state === "ready") this.#shown = true;
    this.element.setAttribute("aria-busy", String(state === "loading"));
    this.#watchVisible();
    if (this.element.isConnected && this.#nearEnd()) this.#down();
  }

  #nearEnd() {
    return document.documentElement.scrollHeight - scrollY - innerHeight < AHEAD;
  }

  /** The index of the first row in the document. */
  #first() {
    if (this.#anchor === null) return 0;
    const at = this.#rows.findIndex((row) => row.key === this.#anchor);
    if (at > 0) return at;
    this.#anchor = null;
    return 0;
  }

  #reconcile(rows) {
    const wanted = new Set(rows.map((row) => row.key));
    const held = this.#list.contains(document.activeElement);
    const left = new Set(this.#rows.map((row) => row.key));
    const leaving = [...this.#cards].filter(([key]) => !wanted.has(key));
    // Measured together, before anything changes: every change between would cost a layout.
    const measured = leaving.map(([, { element }]) => ({ height: element.offsetHeight, isSeen: inView(element) }));
    leaving.forEach(([key, { element }], at) => {
      this.#cards.delete(key);
      if (left.has(key)) this.#heights.set(key, measured[at].height);
      if (!left.has(key) && this.#shown && measured[at].isSeen) slideOut(element);
      else element.remove();
    });
    const arrived = [];
    let place = this.#skip(this.#list.firstElementChild);
    for (const row of rows) {
      let card = this.#cards.get(row.key);
      if (card) card.update(row.value);
      else {
        card = row.mark ? new MarkCard(row.value) : new PostCard(this.#app, row.value, this.#timeline);
        this.#cards.set(row.key, card);
        this.#list.insertBefore(card.element, place);
        if (this.#shown && (row.mark || row.value.isLive || row.value.state !== "stored")) arrived.push(card.element);
        continue;
      }
      if (card.element === place) place = this.#skip(place.nextElementSibling);
      else this.#list.insertBefore(card.element, place);
    }
    if (arrived.length > 0 && scrollY <= TOP) this.#light(arrived);
    if (held && !this.#list.contains(document.activeElement)) this.#app.focusTitle();
  }

  #skip(element) {
    while (element?.dataset.leaving !== undefined) element = element.nextElementSibling;
    return element;
  }

  /** Rows that arrive slide in, and their nodes light once. */
  #light(elements) {
    slideIn(elements);
    for (const element of elements) element.dataset.new = "";
    setTimeout(() => elements.forEach((element) => delete element.dataset.new), 1200);
  }

  #measureAbove(first) {
    let height = 0;
    for (const row of this.#rows.slice(0, first)) height += this.#heights.get(row.key) ?? 130;
    const wanted = `${height}px`;
    if (this.#spacer.style.height !== wanted) this.#spacer.style.height = wanted;
    if (this.#heights.size > 2000) this.#heights.clear();
  }

  #showNote(state, error, entries) {
    const isEmpty = state === "ready" && !this.#timeline.hasOlder;
    const noted = entries.length > 0 ? null : state === "failed" ? error : isEmpty ? "empty" : this.#noted;
    if (noted === this.#noted) return;
    this.#noted = noted;
    if (noted === null) this.#note.replaceChildren();
    else this.#note.replaceChildren(isEmpty ? this.#empty() : failure(error, () => this.#timeline.reload()));
  }

  #showBar(waiting) {
    const visible = waiting > 0;
    if (visible) this.#bar.replaceChildren(icon("down"), h("span", { text: t("new.posts", { n: waiting }) }));
    show(this.#bar, visible);
    // Further down the bar comes along; it covers nothing that moves.
    const far = visible && scrollY > 400;
    show(this.#place, far);
    const wanted = far ? this.#place : this.element;
    if (this.#bar.parentElement !== wanted) far ? this.#place.append(this.#bar) : this.#place.after(this.#bar);
  }

  #showEnd(hidden) {
    const { entries, hasOlder, isLoadingOlder, state } = this.#timeline;
    const older = hasOlder || hidden;
    if (entries.length === 0 && !(older && state === "ready")) return this.#end.replaceChildren();
    if (!older) return setText(this.#end, t("feed.end"));
    if (!this.#end.querySelector("button")) {
      this.#end.replaceChildren(
        button({ class: "button", text: t("older"), data: { testid: "older" }, onclick: () => this.#down() }),
      );
    }
    this.#end.firstChild.disabled = isLoadingOlder;
    // Everything that was loaded left, as after unfollowing somebody busy: there is more below.
    if (entries.length === 0) this.#timeline.loadOlder();
  }

  #showLine() {
    const { state } = this.#app.line;
    // What was written meanwhile says that it is kept.
    if (this.#timeline.entries[0]?.state === "pending") this.#schedule();
    const lost = ["lost", "offline"].includes(state.name) && Date.now() - state.since > 900;
    show(this.#lost, lost);
    if (!lost) return;
    const key = isOffline(state) ? "line.offline.long" : "line.lost.long";
    setText(this.#lost.firstChild, t(key, { span: span(Date.now() - state.since) }));
  }

  #moved() {
    if (!this.element.isConnected) return;
    this.#timeline.atTop = scrollY <= TOP;
    this.#markRead();
    this.#watchVisible(REST_MS);
    this.#showBar(this.#timeline.waiting);
    if (this.#nearEnd()) this.#down();
    else if (this.#anchor !== null && this.#list.getBoundingClientRect().top > -AHEAD) this.#up();
  }

  /** Moves the window down, or loads older posts if it is at the end of what is there. */
  #down() {
    const first = this.#first();
    if (first + WINDOW < this.#rows.length) {
      this.#anchor = this.#rows[Math.min(first + STEP, this.#rows.length - WINDOW)].key;
      this.#render();
    } else if (this.#timeline.hasOlder && !this.#timeline.isLoadingOlder && this.#timeline.state === "ready") {
      this.#timeline.loadOlder();
    }
  }

  #up() {
    const first = Math.max(0, this.#first() - STEP);
    this.#anchor = first === 0 ? null : this.#rows[first].key;
    this.#render();
  }

  async #letIn() {
    this.#anchor = null;
    scrollTo({ top: 0 });
    this.#timeline.atTop = true;
    await this.#timeline.showWaiting();
    this.#render();
    this.#list.querySelector("article")?.focus({ preventScroll: true });
  }

  /**
   * Posts of somebody who is blocked or muted leave, and come back. From Home the server takes them itself; but it does
   * not say which of those that stay are now there by a topic, or no longer.
   */
  #related(id, verb) {
    const timeline = this.#timeline;
    if (this.#isHome ? !verb.endsWith("follow") : !changesVisibility(verb)) return;
    const has = timeline.entries.some(({ post }) => post.author === id);
    if (has || (!this.#isHome && verb.startsWith("un"))) timeline.reload();
  }

  /** The newest post that is on screen was read. */
  #markRead() {
    if (!this.#isHome || document.hidden) return;
    const newest = this.#rows.find((row) => row.value.id && inView(this.#cards.get(row.key)?.element));
    if (!newest) return;
    const { id } = newest.value;
    // Also those that were just let in, and are not drawn yet.
    this.#isWatching = this.#timeline.atTop && this.#timeline.entries.every((entry) => entry.id <= this.#readTo);
    this.#readHere = Math.max(this.#readHere, id);
    this.#app.client.readMarker.mark(id);
  }

  #beginVisit() {
    this.#readTo = Math.max(this.#app.client.readMarker.id, this.#readHere);
    this.#isWatching = false;
  }

  /** The marker moved: at the start to where the last visit ended, later in another tab. */
  #readElsewhere() {
    const { id } = this.#app.client.readMarker;
    if (id <= Math.max(this.#readTo, this.#readHere)) return;
    this.#readTo = id;
    this.#schedule();
  }

  #watchVisible(rest = 0) {
    if (!this.element.isConnected) return;
    this.#watch(this.#visible(), rest);
    if (scrollY <= TOP) this.#markRead();
  }

  /** The ids of the posts on screen. */
  #visible() {
    const rows = this.#rows.filter((row) => row.value.id && inView(this.#cards.get(row.key)?.element));
    return rows.map((row) => row.value.id);
  }

  /** Posts on screen are watched once scrolling comes to rest; each is a subscription. */
  #watch(ids, rest = 0) {
    if (String(ids) === this.#watched) return;
    this.#watched = String(ids);
    clearTimeout(this.#rest);
    this.#rest = setTimeout(() => this.#timeline.watch(ids), rest);
  }
}
