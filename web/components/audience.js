// Who may see a post: its name, and the picker.

import { button, h } from "../dom.js";
import { icon } from "../icons.js";
import { t } from "../i18n/index.js";
import { openDialog } from "./dialog.js";
import { openMenu } from "./menu.js";

const PLAIN = ["public", "followers", "friends"];
const USER = /^[A-Za-z0-9_.-]{1,64}$/;

/** The name of an audience. */
export function audienceName(visibility) {
  if (typeof visibility === "string") return t(`audience.${visibility}`);
  return visibility.only_to
    ? t("audience.only", { n: visibility.only_to.length })
    : t("audience.not", { n: visibility.not_to.length });
}

/** A button that shows the audience and opens the picker; `value` is the visibility. */
export class AudiencePicker {
  value = "public";
  #label = h("span");
  element;

  constructor() {
    this.element = button(
      {
        class: "audience",
        "aria-haspopup": "menu",
        "aria-expanded": "false",
        data: { testid: "audience" },
        onclick: () => this.#pick(),
      },
      icon("globe"),
      this.#label,
      icon("down"),
    );
    this.set("public");
  }

  set(visibility) {
    this.value = visibility;
    this.#label.textContent = audienceName(visibility);
    this.element.setAttribute("aria-label", `${t("audience")}: ${audienceName(visibility)}`);
  }

  #pick() {
    const plain = PLAIN.map((name) => ({
      label: t(`audience.${name}`),
      hint: t(`audience.${name}.hint`),
      checked: this.value === name,
      testid: `audience-${name}`,
      run: () => this.set(name),
    }));
    const named = ["only_to", "not_to"].map((kind) => ({
      label: t(`audience.${kind}`),
      hint: t(`audience.${kind}.hint`),
      checked: Boolean(this.value[kind]),
      testid: `audience-${kind}`,
      run: () => this.#name(kind),
    }));
    openMenu(this.element, t("audience"), [...plain, ...named]);
  }

  #name(kind) {
    const error = h("p", { class: "error", role: "alert" });
    const field = h("input", {
      class: "input",
      id: "audience-users",
      autocapitalize: "none",
      spellcheck: "false",
      data: { testid: "audience-users" },
    });
    field.value = (this.value[kind] ?? []).join(", ");
    const form = h(
      "form",
      { class: "form", novalidate: true },
      h("div", { class: "field" }, h("label", { for: "audience-users", text: t("audience.users") }), field, error),
      h("div", { class: "dialog-foot" }, h("button", { class: "button primary", type: "submit", text: t("done") })),
    );
    const dialog = openDialog(t(`audience.${kind}`), form, { sheet: true, onClose: () => this.element.focus() });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const users = field.value
        .split(/[\s,，、]+/)
        .map((user) => user.replace(/^@/, ""))
        .filter(Boolean);
      error.textContent = users.length > 0 && users.every((user) => USER.test(user)) ? "" : t("audience.error");
      if (error.textContent !== "") return;
      this.set({ [kind]: [...new Set(users)] });
      dialog.close();
    });
  }
}
