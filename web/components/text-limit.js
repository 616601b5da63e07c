// How much of a text is left, counted as the server counts: in code points. What is too long is kept, and refused.

import { GIVEN } from "../base.js";
import { h } from "../dom.js";
import { t } from "../i18n/index.js";

/** The limit of the server for posts and comments. */
const MOST = Number(GIVEN.textLimit);

/** Whether the style makes fields grow with their text. */
const GROWS = CSS.supports("field-sizing", "content");

export class TextLimit {
  #field;
  #most;
  element = h("span", { class: "left", "aria-live": "polite" });

  constructor(field, most = MOST) {
    this.#field = field;
    this.#most = most;
    field.addEventListener("input", () => this.count());
  }

  /** Shows what is left if it is little, and answers with it. */
  count() {
    if (!GROWS) {
      this.#field.style.height = "auto";
      this.#field.style.height = `${this.#field.scrollHeight}px`;
    }
    const left = this.#most - [...this.#field.value].length;
    const near = Math.max(10, Math.min(500, this.#most / 10));
    this.element.textContent = left <= near ? String(left) : "";
    this.element.classList.toggle("over", left < 0);
    return left;
  }

  /** What is wrong with the text; nothing: empty. */
  get problem() {
    return this.count() < 0 ? t("text.long", { n: this.#most }) : "";
  }
}
