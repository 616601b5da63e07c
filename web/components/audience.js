// Who may see a post, and who may comment on it: the names, and the pickers.

import { button, h } from "../dom.js";
import { icon } from "../icons.js";
import { t } from "../i18n/index.js";
import { openMenu } from "./menu.js";

const PLAIN = ["public", "followers", "friends"];
/** Who may comment, with the keys of their names. */
const POLICIES = {
  everyone: "audience.public",
  followers: "audience.followers",
  mentioned: "policy.mentioned",
  nobody: "nobody",
};

/** The name of an audience. Its readers do not learn who else is named: they get an empty list. */
export function audienceName(visibility) {
  if (typeof visibility === "string") return t(`audience.${visibility}`);
  if (visibility.only_to?.length === 0) return t("audience.only.some");
  if (visibility.not_to?.length === 0) return t("audience.not.some");
  return visibility.only_to
    ? t("audience.only", { n: visibility.only_to.length })
    : t("audience.not", { n: visibility.not_to.length });
}

/** A button that shows the audience and opens the picker; `value` is the visibility. */
export class AudiencePicker {
  value = "public";
  #app;
  #chosen;
  #label = h("span");
  element;

  /** `chosen()` is called when the user has chosen another. */
  constructor(app, chosen) {
    this.#app = app;
    this.#chosen = chosen;
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

  #choose(visibility) {
    this.set(visibility);
    this.#chosen();
  }

  #pick() {
    const plain = PLAIN.map((name) => ({
      label: t(`audience.${name}`),
      hint: t(`audience.${name}.hint`),
      checked: this.value === name,
      testid: `audience-${name}`,
      run: () => this.#choose(name),
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

  async #name(kind) {
    const second = await this.#app.secondScript();
    if (!second || !this.element.isConnected) return;
    second.pickPeople(this.#app, t(`audience.${kind}`), this.value[kind] ?? [], {
      done: (users) => this.#choose({ [kind]: users }),
      closed: () => this.element.focus(),
    });
  }
}

/** A button that opens the choice of who can comment, and names those whose choice is not everyone. */
export class PolicyPicker {
  value;
  #chosen;
  #label = h("span");
  element;

  /** `chosen()` is called when the user has chosen another. */
  constructor(chosen = () => {}) {
    this.#chosen = chosen;
    const properties = { class: "audience", "aria-haspopup": "menu", "aria-expanded": "false" };
    this.element = button(
      { ...properties, data: { testid: "policy" }, onclick: () => this.#pick() },
      icon("comment"),
      this.#label,
    );
    this.set();
  }

  set(policy = "everyone") {
    this.value = policy;
    const name = t(POLICIES[policy]);
    this.#label.textContent = policy === "everyone" ? "" : name;
    this.element.title = `${t("policy")}: ${name}`;
    this.element.setAttribute("aria-label", this.element.title);
  }

  #pick() {
    const items = Object.entries(POLICIES).map(([policy, key]) => ({
      label: t(key),
      checked: this.value === policy,
      testid: `policy-${policy}`,
      run: () => {
        this.set(policy);
        this.#chosen();
      },
    }));
    openMenu(this.element, t("policy"), items);
  }
}
