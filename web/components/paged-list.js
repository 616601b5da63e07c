// A list that is read page by page: people, topics, comments.

import { button, h } from "../dom.js";
import { t } from "../i18n/index.js";
import { failure, showWhenSlow, skeletons } from "./states.js";

export class PagedList {
  #load;
  #empty;
  #cursor = null;
  #loading = false;
  #list = h("div", { class: "rows" });
  #foot = h("div", { class: "feed-end" });
  element;
  /** Resolves when the first page is there. */
  ready;

  /** `load(cursor)` answers `{rows, next}`; `empty()` makes what stands in for no rows. */
  constructor(load, empty, { testid } = {}) {
    this.#load = load;
    this.#empty = empty;
    this.element = h("section", { class: "card", data: testid ? { testid } : {} }, this.#list, this.#foot);
    this.ready = this.#more();
  }

  prepend(row) {
    this.#list.querySelector(".empty")?.remove();
    this.#list.prepend(row);
  }

  async #more() {
    if (this.#loading) return;
    this.#loading = true;
    const first = this.#list.childElementCount === 0;
    const fast = first ? showWhenSlow(this.#foot, () => skeletons(3)) : () => {};
    try {
      const { rows, next } = await this.#load(this.#cursor);
      this.#cursor = next;
      this.#list.append(...rows);
      if (this.#list.childElementCount === 0) this.#list.append(this.#empty());
      const more = button({
        class: "button",
        text: t("older"),
        data: { testid: "more-rows" },
        onclick: () => this.#more(),
      });
      fast();
      this.#foot.replaceChildren(...(next ? [more] : []));
    } catch (error) {
      fast();
      this.#foot.replaceChildren(failure(error, () => this.#more()));
    } finally {
      this.#loading = false;
    }
  }
}
