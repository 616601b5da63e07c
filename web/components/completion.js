// Completion of @mentions: a listbox below the field, chosen with arrows and Enter.

import { h } from "../dom.js";
import { tm } from "../i18n/more.js";
import { mentionBegun } from "../text.js";
import { personRow } from "./person.js";

const WAIT_MS = 150;
const MOST = 6;
let lists = 0;

/** Watches a text area; `search(prefix)` answers users. */
export class MentionCompletion {
  #field;
  #search;
  #people = [];
  #at = 0;
  #timer = null;
  #asked = 0;
  element;

  constructor(field, search) {
    this.#field = field;
    this.#search = search;
    const id = `completion-${++lists}`;
    this.element = h("ul", {
      class: "completion card",
      role: "listbox",
      id,
      "aria-label": tm("mention.list"),
      hidden: true,
      data: { testid: "completion" },
    });
    // A field of several lines may not be a combobox; `aria-activedescendant` names the chosen option.
    field.setAttribute("aria-controls", id);
    field.setAttribute("aria-autocomplete", "list");
    field.addEventListener("input", () => this.#typed());
    // Before the form, which sends with Ctrl and Enter.
    field.addEventListener("keydown", (event) => this.#key(event), true);
    field.addEventListener("blur", () => setTimeout(() => this.#close(), 150));
    this.#typed();
  }

  #prefix() {
    return mentionBegun(this.#field.value.slice(0, this.#field.selectionStart));
  }

  #typed() {
    clearTimeout(this.#timer);
    const prefix = this.#prefix();
    if (prefix === "") return this.#close();
    this.#timer = setTimeout(() => this.#ask(prefix), WAIT_MS);
  }

  async #ask(prefix) {
    const asked = ++this.#asked;
    const people = await this.#search(prefix).catch(() => []);
    if (asked !== this.#asked || this.#prefix() !== prefix) return;
    // What is complete needs no completion.
    const isComplete = people.length === 1 && people[0].id === prefix;
    this.#people = isComplete ? [] : people.slice(0, MOST);
    this.#at = 0;
    this.#render();
  }

  #render() {
    const options = this.#people.map((person, index) => {
      const option = h(
        "li",
        { role: "option", id: `${this.element.id}-${index}`, "aria-selected": String(index === this.#at) },
        ...personRow(person),
      );
      option.addEventListener("pointerdown", (event) => {
        event.preventDefault();
        this.#choose(person);
      });
      return option;
    });
    this.element.replaceChildren(...options);
    this.element.hidden = options.length === 0;
    options[this.#at]?.scrollIntoView({ block: "nearest" });
    if (options.length > 0) this.#field.setAttribute("aria-activedescendant", options[this.#at].id);
    else this.#field.removeAttribute("aria-activedescendant");
  }

  #key(event) {
    if (this.element.hidden) return;
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by) {
      this.#at = (this.#at + by + this.#people.length) % this.#people.length;
      this.#render();
    } else if ((event.key === "Enter" || event.key === "Tab") && !event.isComposing)
      this.#choose(this.#people[this.#at]);
    else if (event.key === "Escape") this.#close();
    else return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }

  #choose({ id }) {
    const end = this.#field.selectionStart;
    this.#field.setRangeText(`@${id} `, end - this.#prefix().length - 1, end, "end");
    this.#close();
    this.#field.dispatchEvent(new Event("input", { bubbles: true }));
  }

  #close() {
    clearTimeout(this.#timer);
    this.#asked++;
    this.#people = [];
    if (!this.element.hidden) this.#render();
  }
}
