// A post, a comment or a user as moderators see it, with what they can do about it; and the report, if there is one.

import { bidi, button, h, setText } from "../dom.js";
import { moment, timeElement } from "../format.js";
import { tm, tmNodes } from "../i18n/more.js";
import { kindOf } from "../moderation.js";
import { paths } from "../router.js";
import { written } from "../text.js";
import { confirmDialog } from "./dialog.js";
import { openLightbox } from "./lightbox.js";
import { mediaGrid } from "./media.js";
import { personLink } from "./person.js";
import { messageOf } from "./states.js";
import { fillText } from "./text.js";

const MAX_REASON = 500;
const LEVELS = ["suspended", "limited"];

export class ModeratedCard {
  #view;
  #report;
  #kind;
  #id;
  #about;
  #isBusy = false;
  #status = h("p", { class: "done", role: "status", data: { testid: "moderated-status" } });
  #error = h("p", { class: "error", role: "alert", data: { testid: "moderated-error" } });
  #buttons = h("div", { class: "choices" });
  #body = h("div", { class: "form" });
  element = h("article", { class: "form moderated", tabindex: -1, data: { testid: "report-row" } });

  /**
   * `report` is a report, or names what it would be of. `view` has the `api`, and `refused(error)`: whether the key is
   * no longer accepted, and `closed(card, report, hadFocus)`.
   */
  constructor(view, report) {
    this.#view = view;
    this.#report = report;
    this.#kind = kindOf(report);
    this.#id = report[this.#kind];
    this.#about = this.#kind === "user" ? this.#id : (report.about ?? report.found?.author.id);
    const label = tm(`moderated.${this.#kind}`, { id: String(this.#id) });
    this.element.setAttribute("aria-label", label);
    this.element.dataset.report = report.id ?? "";
    this.#body.append(...(report.id ? this.#reported() : []), this.#shown(label));
    this.element.append(this.#body, h("div", {}, this.#status, this.#error, this.#buttons));
    this.#showButtons();
  }

  /** Whether it shows an open report. */
  get isOpen() {
    return Boolean(this.#report.id) && !this.#report.action;
  }

  /** Whether a report is of the same. */
  isOf(report) {
    return report[this.#kind] === this.#id;
  }

  /** Closes the report, because another one of the same was. */
  async closeWith(action) {
    if (this.isOpen) await this.#run(() => this.#close(action), tm("moderated.with"));
  }

  #reported() {
    const { reason, reporter, created_at: at, text, action, closed_at: closedAt } = this.#report;
    const who = h("a", { href: paths.user(reporter) }, bidi(`@${reporter}`));
    const words = h("p", { class: "text", dir: "auto", text: text ?? "", data: { testid: "report-words" } });
    const ended = action && tm(`moderated.was.${action}`, { at: moment(closedAt) });
    return [
      h(
        "p",
        { class: "post-head" },
        h("span", { class: "tag", text: tm(`reason.${reason}`) }),
        h("span", {}, ...tmNodes("moderated.by", { who })),
        h("span", { class: "when" }, timeElement(at)),
      ),
      text && words,
      ended && h("p", { class: "meta", text: ended, data: { testid: "report-ended" } }),
    ].filter(Boolean);
  }

  /** What is reported, as far as it can be read. */
  #shown(label) {
    const { found } = this.#report;
    const href = {
      post: () => paths.post(this.#id),
      comment: () => found && paths.post(found.post, this.#id),
      user: () => paths.user(this.#id),
    }[this.#kind]();
    const link = href ? h("a", { class: "meta", href, text: label }) : h("span", { class: "meta", text: label });
    const box = h("div", { class: "quoted form", data: { testid: "moderated-object" } });
    if (!found) {
      const who = this.#kind !== "user" && this.#about && tm("moderated.of", { user: this.#about });
      const why = h("p", { class: "meta", text: tm("unreadable") });
      box.append(...[link, who && h("p", { text: who }), why].filter(Boolean));
      return box;
    }
    const text = h("p", { class: "text", dir: "auto" });
    fillText(text, this.#kind === "user" ? { text: found.bio ?? "" } : found);
    const media = found.media?.length ? mediaGrid(found.media, openLightbox) : null;
    box.append(...[personLink(found.author), text.textContent && text, media, link].filter(Boolean));
    return box;
  }

  #showButtons() {
    const kind = this.#kind;
    const make = (name, label, onclick, style = "") =>
      button({ class: `button ${style}`, text: label, data: { testid: `moderate-${name}` }, onclick });
    const user = this.#about;
    const ofObject = kind !== "user" && [
      make("remove", tm(`remove.${kind}`), () => this.#askRemoval(), "danger"),
      make("restore", tm("restore"), () => this.#change("DELETE", this.#removal, tm("restored"))),
    ];
    const ofUser = user && [
      make("suspend", tm("suspend", { user }), () => this.#askSuspension(), "danger"),
      make("unsuspend", tm("unsuspend"), () => this.#change("DELETE", this.#suspension, tm("unsuspended", { user }))),
    ];
    const close = () => this.#run(() => this.#close("none"), tm("report.closed"));
    const ofReport = this.isOpen && [make("none", tm("report.close"), close)];
    this.#buttons.replaceChildren(...[ofObject, ofUser, ofReport].flat().filter(Boolean));
  }

  get #removal() {
    return `/${this.#kind}s/${this.#id}/removal`;
  }

  get #suspension() {
    return `/users/${encodeURIComponent(this.#about)}/suspend`;
  }

  #askRemoval() {
    const reason = reasonField(tm("reason.author"));
    const run = () => this.#act("removed", tm("removed.done"), this.#removal, { ...reason.value });
    const title = tm(`remove.${this.#kind}`);
    confirmDialog(title, tm(`remove.${this.#kind}.text`), title, run, reason.element);
  }

  #askSuspension() {
    const user = this.#about;
    const radios = LEVELS.map((level, at) =>
      h("input", { type: "radio", name: "level", value: level, checked: at === 0, data: { testid: level } }),
    );
    const tick = (radio) =>
      h(
        "label",
        { class: "tick" },
        radio,
        h("span", {}, tm(`level.${radio.value}`), h("span", { class: "meta", text: tm(`level.${radio.value}.hint`) })),
      );
    const reason = reasonField(tm("reason.moderators"));
    const end = h("input", {
      class: "input",
      type: "datetime-local",
      id: "moderate-end",
      data: { testid: "moderate-end" },
    });
    const field = h(
      "div",
      { class: "form" },
      h("fieldset", { class: "ticks" }, h("legend", { text: tm("level") }), ...radios.map(tick)),
      reason.element,
      h("div", { class: "field" }, h("label", { for: end.id, text: tm("until") }), end),
    );
    const run = () => {
      const until = end.value ? new Date(end.value).getTime() : null;
      // What was typed in part has no value.
      if (end.validity.badInput || (until && !(until > Date.now()))) return tm("until.past");
      const level = radios.find(({ checked }) => checked).value;
      const done = tm(`${level}.done`, { user });
      return this.#act("suspended", done, this.#suspension, { level, ...reason.value, ...(until && { until }) });
    };
    confirmDialog(tm("suspend", { user }), tm("suspend.text"), tm("suspend.yes"), run, field);
  }

  /** Does what a dialog asked about, and closes the report. What fails stays in the dialog, but not a wrong key. */
  async #act(action, done, path, body) {
    try {
      await this.#view.api.call("PUT", path, body);
      if (this.isOpen) await this.#close(action);
      this.#say(done);
    } catch (error) {
      if (!this.#view.refused(error)) return messageOf(error);
    }
    return "";
  }

  #change(method, path, done) {
    return this.#run(() => this.#view.api.call(method, path), done);
  }

  async #run(work, done) {
    // Not disabled meanwhile: that would lose the focus.
    if (this.#isBusy) return;
    this.#isBusy = true;
    this.#say("");
    try {
      await work();
      this.#say(done);
    } catch (error) {
      if (!this.#view.refused(error)) this.#error.textContent = messageOf(error);
    } finally {
      this.#isBusy = false;
    }
  }

  /** The report is closed: what happened is left of it, and how to take it back. */
  async #close(action) {
    const { id } = this.#report;
    this.#report = { ...this.#report, ...(await this.#view.api.call("PUT", `/reports/${id}`, { action })) };
    const hadFocus = this.element.contains(document.activeElement) || document.querySelector("dialog[open]") !== null;
    this.#body.hidden = true;
    this.#showButtons();
    const left = { removed: ["restore"], suspended: ["unsuspend"] }[action] ?? [];
    for (const one of [...this.#buttons.children])
      if (!left.includes(one.dataset.testid.replace("moderate-", ""))) one.remove();
    this.#view.closed(this, this.#report, hadFocus);
  }

  #say(text) {
    this.#error.textContent = "";
    setText(this.#status, text);
  }
}

/** A field for a reason; `value` is `{reason}`, or empty. */
function reasonField(label) {
  const input = h("input", {
    class: "input",
    id: "moderate-reason",
    maxlength: MAX_REASON,
    dir: "auto",
    data: { testid: "moderate-reason" },
  });
  return {
    element: h("div", { class: "field" }, h("label", { for: input.id, text: label }), input),
    get value() {
      const reason = written(input.value);
      return reason && { reason };
    },
  };
}
