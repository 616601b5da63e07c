// A list that is read page by page: people, topics, comments.

import { arrange } from "../arrange.js";
import { button, h } from "../dom.js";
import { t } from "../i18n/index.js";
import { failure, showWhenSlow, skeletons } from "./states.js";

export class PagedList {
  #load;
  #empty;
  #shape;
  #cursor = null;
  #loading = false;
  #list = h("div", { class: "rows" });
  #foot = h("div", { class: "feed-end" });
  element;
  /** Resolves when the first page is there. */
  ready;

  /** `load(cursor)` answers `{rows, next}`; `empty()` makes what stands in for no rows; `shape` is that of a row. */
  constructor(load, empty, { testid, shape = "person" } = {}) {
    this.#shape = shape;
    this.#load = load;
    this.#empty = empty;
    this.element = h("section", { class: "card", data: testid ? { testid } : {} }, this.#list, this.#foot);
    this.ready = this.#more();
  }

  /** Whether there are no more pages. */
  get isAtEnd() {
    return !this.#loading && this.#cursor === null;
  }

  /** The rows that are shown. */
  get rows() {
    return [...this.#list.querySelectorAll(":scope > :not(.empty)")];
  }

  /** Shows what was read anew, in place; `next` is where the page below it begins. */
  replace(rows, next) {
    this.#cursor = next;
    arrange(this.#list, rows.length > 0 ? rows : [this.#empty()]);
    this.#showMore();
  }

  prepend(row) {
    this.#list.querySelector(".empty")?.remove();
    this.#list.prepend(row);
  }

  append(row) {
    this.#list.querySelector(".empty")?.remove();
    this.#list.append(row);
  }

  async #more() {
    if (this.#loading) return;
    this.#loading = true;
    const first = this.#list.childElementCount === 0;
    const fast = first ? showWhenSlow(this.#foot, () => skeletons(3, this.#shape)) : () => {};
    try {
      // A page may be empty and not the last one.
      let page;
      do {
        page = await this.#load(this.#cursor);
        this.#cursor = page.next;
      } while (page.rows.length === 0 && page.next);
      await fast();
      this.#list.append(...page.rows);
      if (this.#list.childElementCount === 0) this.#list.append(this.#empty());
      this.#showMore();
    } catch (error) {
      await fast();
      this.#foot.replaceChildren(failure(error, () => this.#more()));
    } finally {
      this.#loading = false;
    }
  }

  #showMore() {
    const more = button({
      class: "button",
      text: t("text.more"),
      data: { testid: "more-rows" },
      onclick: () => this.#more(),
    });
    this.#foot.replaceChildren(...(this.#cursor ? [more] : []));
  }
}
