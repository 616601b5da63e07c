// Writing a post: text with mention completion, media by URL, topics, a place, an audience.

import { button, h } from "../dom.js";
import { draftAt, keepDraft } from "../drafts.js";
import { icon } from "../icons.js";
import { t } from "../i18n/index.js";
import { isBlank, written } from "../text.js";
import { AudiencePicker, PolicyPicker } from "./audience.js";
import { avatar } from "./avatar.js";
import { MediaField, PlaceField } from "./extras.js";
import { quoteCard } from "./quote.js";
import { TextLimit } from "./text-limit.js";

/** The form at a place, "home" or "dialog". `sent()` is called after the post was handed to the timeline. */
export class Compose {
  #app;
  #sent;
  #draftPlace;
  #text = h("textarea", {
    rows: 1,
    dir: "auto",
    placeholder: t("compose.placeholder"),
    "aria-label": t("compose.label"),
    data: { testid: "post-text" },
  });
  #error = h("p", { class: "error", role: "alert", data: { testid: "post-error" } });
  #limit = new TextLimit(this.#text);
  #media = new MediaField();
  #place = new PlaceField();
  #audience;
  #policy;
  /** What the post quotes, `{id, state, post}` or null, and its card. */
  #quote = null;
  #quoted = h("div", { class: "quoting" });
  /** The list of people to mention, once it is needed: null while it is loaded. */
  #completion = h("div");
  element;

  constructor(app, place, { sent = () => {}, bare = false } = {}) {
    this.#app = app;
    this.#sent = sent;
    this.#draftPlace = place;
    this.#audience = new AudiencePicker(app, () => this.#keep());
    this.#policy = new PolicyPicker(() => this.#keep());
    const foot = h(
      "div",
      { class: "compose-foot" },
      this.#media.toggle,
      button(
        {
          class: "icon-button",
          "aria-label": t("compose.topic"),
          title: t("compose.topic"),
          onclick: () => this.#insert("#"),
        },
        icon("hash"),
      ),
      this.#place.toggle,
      this.#audience.element,
      this.#policy.element,
      this.#limit.element,
      h("button", { type: "submit", class: "button primary", text: t("post"), data: { testid: "post-submit" } }),
    );
    const main = h(
      "div",
      { class: "compose-main" },
      this.#text,
      this.#completion,
      this.#media.element,
      this.#place.element,
      this.#quoted,
      this.#error,
      foot,
    );
    this.element = h(
      "form",
      { class: bare ? "compose" : "compose card", novalidate: true, data: { testid: "compose" } },
      avatar(app.me()),
      main,
    );
    this.element.addEventListener("submit", (event) => this.#submit(event));
    this.#text.addEventListener("input", () => {
      this.#count();
      this.#complete();
    });
    this.#text.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.element.requestSubmit();
    });
    const draft = draftAt(app.session, place);
    if (draft) this.#fill(draft);
    for (const name of ["input", "click", "keyup"]) this.element.addEventListener(name, () => this.#keep());
  }

  /** On a phone the form is in a dialog only. */
  get isVisible() {
    return this.element.checkVisibility();
  }

  /** Whether nothing was written or attached. */
  get isEmpty() {
    return isBlank(this.#text.value) && this.#media.value.length === 0 && !this.#place.value && !this.#quote;
  }

  focus() {
    this.#text.focus();
  }

  /** The picture or the name of the user has changed. */
  showMe() {
    this.element.firstChild.replaceWith(avatar(this.#app.me()));
  }

  /** Puts a draft back that could not be sent. */
  restore(draft) {
    this.#fill(draft);
    this.#keep();
    this.focus();
  }

  /** Quotes a post: `{id, state, post}`, or null for none. */
  set quote(quote) {
    this.#showQuote(quote);
    this.#keep();
  }

  #showQuote(quote) {
    this.#quote = quote;
    const remove = () => {
      this.quote = null;
      this.focus();
    };
    const label = { class: "icon-button", "aria-label": t("quote.remove"), title: t("quote.remove") };
    const closer = () => button({ ...label, data: { testid: "quote-remove" }, onclick: remove }, icon("close"));
    this.#quoted.replaceChildren(...(quote ? [quoteCard(this.#app, quote), closer()] : []));
  }

  #fill({ text = "", media = [], location = null, visibility = "public", comment_policy: policy, quote = null }) {
    this.#showQuote(quote);
    this.#text.value = text;
    this.#media.set(media);
    this.#place.set(location);
    this.#audience.set(visibility);
    this.#policy.set(policy);
    this.#count();
  }

  get #draft() {
    const [media, location, visibility] = [this.#media.value, this.#place.value, this.#audience.value];
    const more = { comment_policy: this.#policy.value, quote: this.#quote };
    return { text: this.#text.value, media, location, visibility, ...more };
  }

  /** A click may end the session. */
  #keep() {
    const { session } = this.#app;
    if (session) keepDraft(session, this.#draftPlace, this.isEmpty ? null : this.#draft);
  }

  async #complete() {
    const place = this.#completion;
    if (!place || !this.#text.value.includes("@")) return;
    this.#completion = null;
    const second = await this.#app.secondScript();
    if (!second) return void (this.#completion = place);
    const search = (q) => this.#app.client.connection.rpc("users.search", { q, limit: 6 }).then(({ items }) => items);
    place.replaceWith(new second.MentionCompletion(this.#text, search).element);
  }

  #insert(mark) {
    const { selectionStart: at, value } = this.#text;
    const space = at > 0 && !/\s/.test(value[at - 1]) ? " " : "";
    this.#text.setRangeText(space + mark, at, this.#text.selectionEnd, "end");
    this.#text.focus();
    this.#count();
  }

  #count() {
    this.#error.textContent = "";
    this.#limit.count();
  }

  #submit(event) {
    event.preventDefault();
    const draft = { ...this.#draft, text: written(this.#text.value) };
    const problem = this.#problem(draft);
    this.#error.textContent = problem;
    if (problem !== "") return this.#text.focus();
    const { timeline } = this.#app.client;
    timeline.post(compact(draft), undefined, undefined, draft.quote?.post);
    this.restore({ visibility: draft.visibility });
    this.#sent();
  }

  #problem({ text, media }) {
    if (this.#media.problem) return this.#media.problem;
    if (this.#place.problem) return this.#place.problem;
    if (text === "" && media.length === 0) return t("compose.empty");
    return this.#limit.problem;
  }
}

/** Leaves out what was not filled in. */
function compact({ text, media, location, visibility, comment_policy, quote }) {
  const policy = comment_policy !== "everyone" && { comment_policy };
  const more = { ...(media.length > 0 && { media }), ...(location && { location }), ...(quote && { quote: quote.id }) };
  return { text, visibility, ...policy, ...more };
}

/** Whether a post was begun in the dialog. */
export const hasUnsent = ({ session }) => session !== null && draftAt(session, "dialog") !== null;
