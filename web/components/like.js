// The like button. Pending: filled, with a dotted line under the number. Settled: without it. Reverted: an amber
// outline, and a sentence that says why.

import { button, h, setText } from "../dom.js";
import { count } from "../format.js";
import { icon } from "../icons.js";
import { t } from "../i18n/index.js";

/** The like of one post or comment: a button, and the notice of a reversal. */
export class LikeControl {
  #likes;
  #type;
  #object;
  #number = h("span", { class: "number" });
  element;
  notice = h("div", { class: "notice", role: "status", data: { testid: "reverted" }, hidden: true });

  constructor(likes, object, type = "post") {
    this.#likes = likes;
    this.#type = type;
    this.element = button(
      { class: "action like", data: { testid: "like" }, onclick: () => this.#toggle() },
      icon("heart"),
      this.#number,
    );
    this.update(object);
  }

  update(object) {
    this.#object = object;
    this.#render(this.#likes.view(object));
  }

  #toggle() {
    const view = this.#likes.toggle(this.#object, this.#type);
    this.#render(view);
    if (view.liked) {
      this.element.dataset.grow = "";
      setTimeout(() => delete this.element.dataset.grow, 260);
    }
  }

  #render({ liked, likes, state, reason }) {
    const { element } = this;
    element.setAttribute("aria-pressed", String(liked));
    element.setAttribute("aria-label", `${t(liked ? "unlike" : "like")}, ${t("likes", { n: likes })}`);
    element.dataset.state = state;
    setText(this.#number, likes > 0 ? count(likes) : "");
    const reverted = state === "reverted";
    if (this.notice.hidden !== reverted) return;
    this.notice.hidden = !reverted;
    if (!reverted) return this.notice.replaceChildren();
    const dismiss = () => {
      this.#likes.dismiss(this.#object.id);
      this.update(this.#object);
      element.focus({ preventScroll: true });
    };
    const key = ["gone", "hidden", "failed", "rate_limited", "busy"].includes(reason) ? reason : "refused";
    this.notice.append(
      h("span", { text: t(`reverted.${key}`) }),
      button({ text: t("dismiss"), data: { testid: "dismiss" }, onclick: dismiss }),
    );
  }
}
