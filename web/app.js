// The application: who is signed in, the client of the server, the views.

import { BASE } from "./base.js";
import { hasUnsent } from "./components/compose.js";
import { closeMenu } from "./components/menu.js";
import { lineChanged, messageOf } from "./components/states.js";
import { Shell } from "./components/shell.js";
import { Choices } from "./choices.js";
import { button, h, setText } from "./dom.js";
import { forgetDrafts } from "./drafts.js";
import { Emitter } from "./emitter.js";
import { request, signIn, signUp } from "./api.js";
import { isDevelopment } from "./development.js";
import { Client } from "./feedline/client.js";
import { newKey } from "./feedline/timeline.js";
import { fallback, httpStream, webSocket } from "./feedline/transport.js";
import { t } from "./i18n/index.js";
import { Line } from "./line.js";
import { Push } from "./push.js";
import { parse, paths, Router } from "./router.js";
import {
  clearSession,
  loadSession,
  otherSession,
  saveSession,
  setOwnAccount,
  updateSession,
  watchSession,
} from "./session.js";
import { Tap } from "./tap.js";
import { withoutDirections } from "./text.js";
import { gateView } from "./views/gate.js";
import { expectSecondScript, isLoaded, loadSecondScript, signedInViews } from "./views/index.js";

/** The code with which the server closes the connections of suspended and blocked users. */
const REFUSED = 3507;
const TOAST_MS = 6000;
/** The time to take something back. */
const UNDO_MS = 10_000;
const SLOW_MS = 1000;

/** When the page was last loaded anew for another build, and how long it is not again. */
const RENEWED = "feedline.renewed";
const RENEWAL_MS = 60_000;

/** Moderators need a key, and no account. */
const isOpen = ({ name }) => name === "moderation";
const isGate = ({ name }) => name === "sign-in" || name === "sign-up";

/** The page of one tab. Everything that belongs to a user is replaced as a whole when the user changes. */
export class App {
  #root;
  #shell = null;
  #drawer = null;
  #toastTimer = null;
  #notice = "";
  /** The signed-in user, or null: `{user, name, avatar, token, key}`. The key is this session's name in the page. */
  session = null;
  /** The client module: connection, timeline, likes, notifications. */
  client = null;
  line = null;
  /** The latest frames. */
  tap = null;
  /** The view Home; the language and the user are those with which it was made. */
  home = null;
  favourites = null;
  /** The posts that the user reposted. */
  reposts = null;
  /** Pushes to this browser. */
  push = null;
  /** Conversations that were muted (or no longer) here: post → whether, ahead of what pages say. */
  mutings = new Map();
  /** Emits the changes of relations to other users: the id, and the verb of the operation. */
  relations = new Emitter();
  /** Makes what is said above every view, if something is. */
  banner = null;
  /** The simulated people of a development page, once there were some. */
  crowd = null;
  router;

  constructor(root) {
    this.#root = root;
    this.router = new Router(
      (route, kept) => this.#show(route, kept),
      (route) => this.#prepare(route),
    );
  }

  start() {
    const demo = isDevelopment() && /^#demo=([\w.-]+):(\w+)$/.exec(location.hash);
    const session = demo ? null : loadSession();
    if (demo) this.#enterDemo({ user: demo[1], password: demo[2] });
    if (session) this.#open(session);
    this.router.start();
    watchSession((now) => {
      if (this.session && !now) return this.leave(t("gate.ended"));
      if (!this.session && now) this.#resume(now);
    });
    // A post that is not stored yet would be lost with the tab.
    addEventListener("beforeunload", (event) => this.client?.timeline.entries[0]?.id === 0 && event.preventDefault());
  }

  /** Signs in with what stands in the address of `feedline demo`, on this machine alone. */
  async #enterDemo(credentials) {
    const entered = await signIn(credentials).catch(() => null);
    if (entered && !this.session) this.enter({ user: entered.user, token: entered.token, name: entered.user });
  }

  /** The signed-in user as a person. */
  me() {
    const { user: id, name, avatar, bio } = this.session;
    return { id, name, avatar, bio };
  }

  /** Takes over what the profile says of the signed-in user. */
  setProfile({ name, avatar, bio }) {
    this.session = { ...this.session, name, avatar, bio };
    updateSession(this.session);
    this.client.people.add({ [this.session.user]: this.me() });
    this.#shell?.showMe();
    this.home?.compose.showMe();
  }

  enter(entered) {
    const session = { ...entered, key: newKey() };
    saveSession(session);
    this.#resume(session);
  }

  /** Leaves the gate with a session. */
  #resume(session) {
    this.router.clear();
    this.#open(session);
    this.router.go(isGate(parse(location)) ? paths.home() : location.pathname + location.search, { replace: true });
  }

  /** Leaves the session to the other tabs: this one gets an account of its own. */
  changeAccount() {
    this.session = null;
    setOwnAccount(true);
    this.leave();
  }

  /** Ends the session in this tab; `notice` says why, if the user did not ask for it. */
  leave(notice = "") {
    this.#notice = notice;
    this.#drawer?.close();
    closeMenu({ focus: false });
    this.toast("");
    for (const dialog of document.querySelectorAll("dialog")) dialog.close();
    this.router.clear();
    this.home?.close();
    this.push?.signOut();
    this.#shell?.close();
    this.#shell = null;
    this.crowd?.stop();
    this.line?.close();
    this.client?.close();
    this.client = this.line = this.tap = this.favourites = this.reposts = this.push = null;
    clearSession(this.session);
    this.session = this.home = this.crowd = this.banner = null;
    this.router.go(paths.gate("sign-in"), { replace: true });
  }

  /** Signs out: on the server, as far as it can be reached, and here. */
  signOut() {
    const { token } = this.session;
    forgetDrafts();
    request("DELETE", "/sessions", { token }).catch(() => {});
    this.leave();
  }

  /** Shows everything again, in another language. */
  refresh() {
    this.#drawer?.close();
    this.home?.close();
    this.home = null;
    this.#shell?.close();
    this.#shell = null;
    this.router.refresh();
  }

  /** Opens the drawer "Behind the curtain", once its script is there. */
  async openDrawer() {
    const second = await this.secondScript();
    if (!second) return;
    this.#drawer ??= new second.Drawer(this, () => {
      this.#drawer = null;
    });
    this.#drawer.open();
  }

  /** Opens the form for a post, where the view has none. */
  compose(draft = null) {
    const { view } = this;
    if (!view?.compose?.isVisible) return this.composeDialog(draft);
    scrollTo({ top: 0 });
    if (draft) view.compose.restore(draft);
    view.compose.focus();
  }

  /** Opens the form in a dialog, once its script is there. */
  async composeDialog(draft = null) {
    (await this.secondScript())?.composeDialog(this, draft);
  }

  /** Puts a post that could not be sent back into the form; `take` hands it over. Nothing that is written is lost. */
  async restoreDraft(take) {
    const { compose } = this.view;
    if (!compose?.isVisible && !(await this.secondScript())) return;
    const isTaken = compose?.isVisible ? !compose.isEmpty : hasUnsent(this);
    if (isTaken) return this.toast(t("compose.taken"));
    const draft = take();
    if (draft) this.compose(draft);
  }

  /** Says something to those who listen instead of looking. */
  announce(text) {
    const place = document.getElementById("announce");
    place.textContent = "";
    setTimeout(() => setText(place, text), 50);
  }

  /** Says something for a few seconds, and longer with a button that takes it back: `undo()`. */
  toast(text, undo = null) {
    const place = document.getElementById("toast");
    setText(place, text);
    const end = () => {
      // While it is pointed at or has the focus, it stays.
      if (place.matches(":hover, :focus-within")) return this.#endToast(end, TOAST_MS);
      place.textContent = "";
    };
    if (undo) {
      const run = () => {
        // The button goes, and the focus must not be lost with it.
        const hasFocus = place.contains(document.activeElement);
        place.textContent = "";
        if (hasFocus) this.focusTitle();
        undo();
      };
      place.append(button({ text: t("undo"), data: { testid: "undo" }, onclick: run }));
    }
    this.#endToast(end, undo ? UNDO_MS : TOAST_MS);
  }

  #endToast(end, ms) {
    clearTimeout(this.#toastTimer);
    this.#toastTimer = setTimeout(end, ms);
  }

  focusTitle() {
    this.#shell?.focusTitle();
  }

  /** Shows the unread notifications in the title of the tab. */
  setBadge() {
    const { unread = 0 } = this.client?.notifications ?? {};
    const badge = unread > 99 ? "(99+) " : unread > 0 ? `(${unread}) ` : "";
    document.title = [badge + withoutDirections(this.view?.title ?? ""), "Feedline"].filter(Boolean).join(" · ");
  }

  #open(session) {
    this.session = session;
    const { user, token } = session;
    this.tap = new Tap();
    const transport = this.tap.transport(fallback(webSocket(), httpStream()));
    const client = new Client({ url: `${BASE}/connection/websocket`, user, token, transport });
    this.client = client;
    this.tap.watch(client.connection);
    this.mutings.clear();
    this.line = new Line(client);
    const rpc = (method, params) => client.connection.rpc(method, params);
    const failed = (error) => this.toast(messageOf(error));
    const favour = (wanted, { id }) => rpc(`favourites.${wanted ? "add" : "remove"}`, { type: "post", id: String(id) });
    this.favourites = new Choices("favourited", favour, failed);
    const passOn = (wanted, { id }) => rpc(`posts.${wanted ? "" : "un"}repost`, { id });
    this.reposts = new Choices("reposted", passOn, failed);
    this.push = new Push(this);
    client.people.add({ [session.user]: this.me() });
    client.connection.on("state", (state) => {
      if (client !== this.client) return;
      lineChanged(state.name === "live");
      if (state.name === "ended" && state.signedOut) this.leave(t("gate.ended"));
      if (state.code === REFUSED)
        this.secondScript().then((second) => client === this.client && second?.readOverHttp(this));
    });
    client.notifications.on("change", () => client === this.client && this.setBadge());
    client.open();
    // Posts do not say that the user reposted them.
    rpc("users.posts", { id: user, only: "reposts", limit: 100 }).then(
      ({ items }) => client === this.client && this.reposts.note(items.map(({ repost }) => repost.id)),
      () => {},
    );
    rpc("users.get", { id: session.user }).then(
      (profile) => client === this.client && this.setProfile(profile),
      () => {},
    );
  }

  /** Waits for the script of a view. */
  #prepare(route) {
    const isIn = this.session ? !isGate(route) : isOpen(route);
    return isIn && !isLoaded(route) ? this.secondScript() : null;
  }

  /** Says which words cover something, once the second script is there. */
  async filterText(...covered) {
    return (await loadSecondScript()).filterText(this, ...covered);
  }

  /** The second script; null if it cannot be used, or somebody else has signed in meanwhile. */
  async secondScript() {
    const key = this.session?.key;
    const slow = setTimeout(() => this.toast(t("waiting")), SLOW_MS);
    const second = await loadSecondScript().catch(() => null);
    clearTimeout(slow);
    if (!second) this.#renew();
    // The session itself is replaced whenever its profile has changed.
    return key === this.session?.key ? second : null;
  }

  /** The server was replaced by another build: the page is loaded anew, unless something would be lost. */
  #renew() {
    const isWriting = hasUnsent(this) || this.view?.compose?.isEmpty === false;
    const last = Number(sessionStorage.getItem(RENEWED));
    if (isWriting || Date.now() - last < RENEWAL_MS) return this.toast(t("renew"));
    sessionStorage.setItem(RENEWED, Date.now());
    location.reload();
  }

  #show(route, kept) {
    closeMenu({ focus: false });
    if (!this.session && isOpen(route)) return this.#showAlone(signedInViews(this, route));
    if (!this.session) return this.#showGate(isGate(route) ? route.name : "sign-in");
    if (isGate(route)) {
      queueMicrotask(() => this.router.go(paths.home(), { replace: true }));
      return { element: document.createElement("div") };
    }
    if (!this.#shell) {
      this.#shell = new Shell(this);
      this.#root.replaceChildren(this.#shell.element);
    }
    const view = kept ?? signedInViews(this, route);
    this.view = view;
    this.#shell.showView(view, route);
    this.setBadge();
    // Who has lists is shown their tabs at once.
    expectSecondScript(this.session.lists?.length > 0);
    return view;
  }

  /** A view without the frame, which belongs to a user. */
  #showAlone(view) {
    this.view = view;
    const title = h("h1", { id: "title", tabindex: -1, text: view.title });
    this.#root.replaceChildren(h("main", { class: "gate", id: "main" }, title, view.element));
    this.setBadge();
    return view;
  }

  #showGate(mode) {
    const view = gateView({
      mode,
      notice: this.#notice,
      request: mode === "sign-up" ? signUp : signIn,
      enter: ({ user, token }, name) => this.enter({ user, token, name: name || user }),
      other: otherSession(),
      join: (session) => {
        setOwnAccount(false);
        this.#resume(session);
      },
      go: (path) => this.router.go(path),
      refresh: () => this.router.refresh(),
    });
    this.#notice = "";
    this.view = view;
    this.#root.replaceChildren(view.element);
    document.title = `${withoutDirections(view.title)} · Feedline`;
    queueMicrotask(view.focus);
    return view;
  }
}
