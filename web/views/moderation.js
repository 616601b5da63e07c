// Moderation: reports, and what can be done about them, for those who have an API key.

import { button, h } from "../dom.js";
import { tm } from "../i18n/more.js";
import { ModeratedCard } from "../components/moderated.js";
import { PagedList } from "../components/paged-list.js";
import { empty, messageOf } from "../components/states.js";
import { ModerationApi } from "../moderation.js";

export function moderationView(app) {
  const view = new ModerationView(app);
  return { title: tm("moderation"), element: view.element, resume: () => view.resume() };
}

class ModerationView {
  #app;
  #open = true;
  #list = h("div");
  #cards = [];
  element = h("div", { class: "view moderation" });
  api;

  constructor(app) {
    this.#app = app;
    this.api = new ModerationApi(app.session?.key);
    if (this.api.key) this.#showReports();
    else this.#askKey();
  }

  /** The key may have been forgotten in another view of this address. */
  resume() {
    const isShown = this.element.contains(this.#list);
    if (isShown && !this.api.key) this.#askKey();
    else if (!isShown && this.api.key) this.#showReports();
    else this.element.querySelector("[data-testid=moderation-key]")?.focus();
  }

  /** Asks for the key again, if an error says that it is not accepted. */
  refused(error) {
    if (error.code !== 401) return false;
    this.api.key = null;
    this.#askKey(tm("key.wrong"));
    return true;
  }

  /** A report was closed: so are the others of the same, and the next one is looked at. */
  closed(card, report, hadFocus) {
    const rest = this.#cards.filter((one) => one !== card && one.isOpen);
    const others = report.action === "none" ? [] : rest.filter((one) => one.isOf(report));
    for (const other of others) other.closeWith(report.action);
    const below = rest.filter((one) => !others.includes(one) && this.#isBelow(one, card));
    // A dialog gives the focus back first, to a button that is gone.
    if (hadFocus) setTimeout(() => (below[0] ?? card).element.focus());
  }

  #isBelow = (one, other) => this.#cards.indexOf(one) > this.#cards.indexOf(other);

  #askKey(problem = "") {
    const input = h("input", {
      class: "input",
      id: "moderation-key",
      type: "password",
      autocomplete: "off",
      "aria-describedby": "moderation-key-hint",
      data: { testid: "moderation-key" },
    });
    const error = h("p", { class: "error", role: "alert", text: problem, data: { testid: "moderation-error" } });
    const send = h("button", {
      class: "button primary",
      type: "submit",
      text: tm("key.use"),
      data: { testid: "moderation-enter" },
    });
    const hint = h("p", { class: "meta", id: "moderation-key-hint", text: tm("key.hint") });
    const form = h(
      "form",
      { class: "form", novalidate: true },
      h("div", { class: "field" }, h("label", { for: input.id, text: tm("key") }), input, hint),
      h("div", { class: "form-foot" }, send, error),
    );
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const key = input.value.trim();
      error.textContent = ModerationApi.isKey(key) ? "" : tm(key ? "key.wrong" : "key.empty");
      if (error.textContent) return input.focus();
      send.disabled = true;
      try {
        await this.api.call("GET", "/reports?limit=1", undefined, key);
        this.api.key = key;
        this.#showReports();
        this.#app.focusTitle();
      } catch (failure) {
        error.textContent = failure.code === 401 ? tm("key.wrong") : messageOf(failure);
        send.disabled = false;
        input.focus();
      }
    });
    this.element.replaceChildren(section(tm("key.title"), form));
    // A dialog may be open still.
    if (problem) setTimeout(() => input.focus());
  }

  #forget() {
    this.api.key = null;
    this.#askKey();
    this.#app.focusTitle();
  }

  #showReports() {
    const forget = button({
      class: "button",
      text: tm("key.forget"),
      data: { testid: "moderation-forget" },
      onclick: () => this.#forget(),
    });
    this.element.replaceChildren(
      section(tm("key.known"), h("div", {}, forget)),
      section(tm("direct"), this.#direct()),
      h("section", { class: "card" }, this.#filter(), this.#list),
    );
    this.#read();
  }

  #filter() {
    const states = [true, false];
    const buttons = states.map((open) =>
      button({ text: tm(open ? "reports.open" : "reports.closed"), data: { testid: `reports-${open}` } }),
    );
    const mark = () =>
      buttons.forEach((one, at) => one.setAttribute("aria-pressed", String(states[at] === this.#open)));
    buttons.forEach((one, at) =>
      one.addEventListener("click", () => {
        this.#open = states[at];
        mark();
        this.#read();
      }),
    );
    mark();
    return h(
      "div",
      { class: "dialog-head" },
      h("h2", { text: tm("reports") }),
      h("div", { class: "order", role: "group", "aria-label": tm("reports.which") }, ...buttons),
    );
  }

  /** Reads the reports from the newest on. */
  #read() {
    const open = this.#open;
    const cards = (this.#cards = []);
    const load = async (cursor) => {
      try {
        const { items, next } = await this.api.reports(open, cursor);
        const more = items.map((report) => new ModeratedCard(this, report));
        cards.push(...more);
        return { rows: more.map(({ element }) => element), next };
      } catch (error) {
        this.refused(error);
        throw error;
      }
    };
    const none = () => empty(tm(open ? "reports.none" : "reports.none.closed"));
    const { element } = new PagedList(load, none, { testid: "reports", shape: "post" });
    element.classList.remove("card");
    this.#list.replaceChildren(element);
  }

  /** Looks up a post, a comment or a user by the id. */
  #direct() {
    const kind = h(
      "select",
      { class: "input", "aria-label": tm("direct.kind"), data: { testid: "direct-kind" } },
      ...["post", "comment", "user"].map((name) => h("option", { value: name, text: tm(`direct.${name}`) })),
    );
    kind.style.width = "auto";
    const id = h("input", {
      class: "input",
      "aria-label": tm("direct.id"),
      placeholder: tm("direct.id"),
      autocapitalize: "none",
      autocomplete: "off",
      spellcheck: "false",
      maxlength: 64,
      data: { testid: "direct-id" },
    });
    const error = h("p", { class: "error", role: "alert", data: { testid: "direct-error" } });
    const place = h("div");
    const submit = h("button", {
      class: "button",
      type: "submit",
      text: tm("direct.show"),
      data: { testid: "direct-show" },
    });
    const form = h("form", { class: "extra", novalidate: true }, kind, id, submit);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const named = namedBy(kind.value, id.value.trim());
      error.textContent = named ? "" : tm("direct.invalid");
      if (!named) return id.focus();
      submit.disabled = true;
      try {
        const find = await this.api.find([named]);
        const card = new ModeratedCard(this, { ...named, found: find(named) });
        place.replaceChildren(card.element);
        card.element.focus();
      } catch (failure) {
        if (!this.refused(failure)) error.textContent = messageOf(failure);
      } finally {
        submit.disabled = false;
      }
    });
    return h("div", { class: "form" }, form, error, place);
  }
}

/** `{post}`, `{comment}` or `{user}`; null: the text is no id of that kind. */
function namedBy(kind, text) {
  if (kind === "user") return /^@?[\w.-]{1,64}$/.test(text) ? { user: text.replace("@", "") } : null;
  return /^\d{1,16}$/.test(text) ? { [kind]: Number(text) } : null;
}

const section = (title, ...children) => h("section", { class: "card settings" }, h("h2", { text: title }), ...children);
