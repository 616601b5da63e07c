// The page: connects the forms, the connection and the timeline.

import { Api } from "./api.js";
import { Connection } from "./socket.js";
import { clearSession, loadSession, saveSession } from "./store.js";
import { Timeline } from "./timeline.js";
import * as view from "./view.js";

const PAGE = 20;
const RETRY_READ_MS = 2_000;
const CLOCK_MS = 30_000;
const EMPTY = "Nothing here yet. Write a post, or follow a user.";

const { elements } = view;
const api = new Api(() => home?.session.token ?? null);

/** The state of the signed-in user, or null. Replaced as a whole, so that nothing leaks into the next session. */
let home = null;
let mode = "sign-in";

/** The page of a user, while signed in. */
class Home {
  session;
  #timeline = new Timeline();
  #channel;
  #connection;
  #names = new Map();
  #following = [];
  #retry = null;
  /** Counts the reads of the first page, so that the reply to an outdated one is dropped. */
  #reads = 0;

  constructor(session) {
    this.session = session;
    this.#channel = `timeline:${session.user}`;
    this.#names.set(session.user, session.name);
    const url = new URL("/connection/websocket", location.href);
    url.protocol = url.protocol.replace("http", "ws");
    this.#connection = new Connection({
      url: url.href,
      token: () => session.token,
      on: {
        state: (state) => this.#connectionChanged(state),
        subscribed: (channel, sub) => channel === this.#channel && this.#subscribed(sub),
        publication: (channel, publication) => channel === this.#channel && this.#arrived(publication),
      },
    });
  }

  start() {
    view.showHome(this.session);
    view.showPosts([], this.#how());
    view.showOlder(false);
    view.showNote("Reading your timeline…");
    this.#connection.open();
    this.#readName();
    this.#readFollowing();
  }

  stop() {
    clearTimeout(this.#retry);
    this.#connection.close();
  }

  drop() {
    this.#connection.drop();
  }

  nudge() {
    this.#connection.nudge();
  }

  toggleOnline() {
    if (this.online) this.#connection.close();
    else this.#connection.open();
  }

  /** Whether this page is connected, or tries to connect. */
  online = false;

  #connectionChanged(state) {
    if (home !== this) return;
    this.online = state.name !== "offline" && state.name !== "ended";
    view.showConnection(state);
    if (state.name !== "online") view.showRecovered("");
    if (state.name === "ended" && isAboutToken(state.code)) signOut("Your session has ended. Sign in again.");
  }

  #subscribed({ wasRecovering, recovered, missed }) {
    if (recovered) view.showRecovered(`Recovered ${missed} ${missed === 1 ? "entry" : "entries"}`);
    else if (wasRecovering) view.showRecovered("Missed too much: timeline reloaded");
    if (!recovered || !this.#timeline.isRead) this.#readFirst();
  }

  #arrived({ data, offset }) {
    const before = this.#timeline.visible.length;
    this.#timeline.apply(data, offset);
    this.#show();
    if (data.type === "post" && this.#timeline.visible.length > before) {
      view.announce(`New post by ${this.#nameOf(data.post.author)}`);
    }
  }

  async #readFirst() {
    clearTimeout(this.#retry);
    const read = ++this.#reads;
    this.#timeline.begin();
    try {
      const page = await this.#connection.rpc("timeline.read", { limit: PAGE });
      if (read !== this.#reads || home !== this) return;
      this.#timeline.fill(page);
      this.#show();
    } catch (error) {
      if (read !== this.#reads || home !== this) return;
      // The next connection reads again.
      if (!this.#connection.isOnline) return;
      view.showNote(`The timeline could not be read: ${error.message}. Trying again…`);
      this.#retry = setTimeout(() => this.#readFirst(), RETRY_READ_MS * (0.5 + Math.random()));
    }
  }

  async readOlder() {
    const cursor = this.#timeline.next;
    const read = this.#reads;
    if (cursor === null || elements.older.disabled) return;
    view.showError("older", "");
    elements.older.disabled = true;
    try {
      const page = await this.#connection.rpc("timeline.read", { limit: PAGE, cursor });
      if (read !== this.#reads || home !== this) return;
      this.#timeline.extend(page);
      this.#show();
    } catch (error) {
      if (home === this) view.showError("older", `Older posts could not be read: ${error.message}`);
    } finally {
      elements.older.disabled = false;
    }
  }

  async post(text) {
    const post = await api.createPost(text);
    this.#timeline.put(post);
    this.#show();
  }

  async #delete(post) {
    await api.deletePost(post.id);
    this.#timeline.remove(post.id);
    this.#show();
  }

  async follow(id) {
    await api.follow(id);
    await this.#readFollowing();
  }

  async #unfollow(id) {
    view.showError("follow", "");
    try {
      await api.unfollow(id);
    } catch (error) {
      if (home === this) view.showError("follow", error.message);
    }
    await this.#readFollowing();
  }

  /** A sign-in has the id only: loads the name. */
  async #readName() {
    const { name } = await api.user(this.session.user).catch(() => this.session);
    if (home !== this || name === this.session.name) return;
    this.session = { ...this.session, name };
    saveSession(this.session);
    this.#names.set(this.session.user, name);
    view.showMe(this.session);
    this.#show();
  }

  async #readFollowing() {
    try {
      const users = [];
      for (let cursor = null; cursor !== undefined; ) {
        const page = await api.following(this.session.user, cursor);
        users.push(...page.items);
        cursor = page.next;
      }
      this.#following = users;
    } catch (error) {
      if (home === this) view.showError("follow", error.message);
    }
    if (home !== this) return;
    for (const { id, name } of this.#following) this.#names.set(id, name);
    view.showFollowing(this.#following, (id) => this.#unfollow(id));
    this.#show();
  }

  #nameOf(user) {
    return this.#names.get(user) ?? user;
  }

  #how() {
    return { me: this.session.user, nameOf: (user) => this.#nameOf(user), onDelete: (post) => this.#delete(post) };
  }

  #show() {
    if (home !== this) return;
    const posts = this.#timeline.visible;
    view.showPosts(posts, this.#how());
    const more = this.#timeline.next !== null;
    view.showOlder(more);
    if (this.#timeline.isRead) view.showNote(posts.length === 0 && !more ? EMPTY : "");
    // All loaded posts were removed, for example by an unfollow: shows older ones.
    if (posts.length === 0 && more) this.readOlder();
  }
}

/** Whether the server ended a connection because its token expired or is not valid. */
function isAboutToken(code) {
  return code === 109 || code === 3500;
}

function enter(session) {
  home = new Home(session);
  home.start();
}

function signOut(message) {
  const left = home;
  // The request takes its token before `home` is cleared. While offline, only this tab is signed out.
  if (left && message === undefined) api.signOut().catch(() => {});
  home = null;
  left?.stop();
  clearSession();
  mode = "sign-in";
  view.showGate(mode, message);
}

elements.gateSwitch.addEventListener("click", () => {
  mode = mode === "sign-in" ? "sign-up" : "sign-in";
  view.showGate(mode);
});

elements.gateForm.addEventListener("submit", (event) => {
  event.preventDefault();
  const { user, password, name } = Object.fromEntries(new FormData(elements.gateForm));
  const id = user.trim();
  view.showGateError({ message: "" });
  if (id === "") return view.showGateError({ field: "user", message: "Enter an id." });
  if (password === "") return view.showGateError({ field: "password", message: "Enter a password." });
  view.busy(elements.gateForm, async () => {
    try {
      const given = name.trim();
      const account = { user: id, password, ...(given && { name: given }) };
      const { token } = mode === "sign-up" ? await api.signUp(account) : await api.signIn({ user: id, password });
      const session = { user: id, name: mode === "sign-up" ? given || id : id, token };
      saveSession(session);
      enter(session);
    } catch (error) {
      view.showGateError(error);
    }
  });
});

elements.signOut.addEventListener("click", () => signOut());

elements.writeText.addEventListener("input", () => {
  view.showCount(elements.writeText.value);
});

elements.writeText.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) elements.writeForm.requestSubmit();
});

elements.writeForm.addEventListener("submit", (event) => {
  event.preventDefault();
  view.showError("write", "");
  view.busy(elements.writeForm, async () => {
    const text = elements.writeText.value;
    try {
      await home.post(text);
      elements.writeForm.reset();
      view.showCount("");
      elements.writeText.focus();
    } catch (error) {
      view.showError("write", error.message);
    }
  });
});

elements.followForm.addEventListener("submit", (event) => {
  event.preventDefault();
  view.showError("follow", "");
  const id = elements.followUser.value.trim().replace(/^@/, "");
  if (id === "") return view.showError("follow", "Enter the id of a user.");
  view.busy(elements.followForm, async () => {
    try {
      await home.follow(id);
      elements.followForm.reset();
    } catch (error) {
      view.showError("follow", error.message);
    }
  });
});

elements.older.addEventListener("click", () => home?.readOlder());
elements.drop.addEventListener("click", () => home?.drop());
elements.toggleOnline.addEventListener("click", () => home?.toggleOnline());
window.addEventListener("online", () => home?.nudge());
document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && home?.nudge());
setInterval(view.refreshTimes, CLOCK_MS);

const session = loadSession();
if (session) enter(session);
else view.showGate(mode);
