// Choosing the language and the theme.

import { button, h } from "../dom.js";
import { currentLanguage, LANGUAGES, setLanguage, t } from "../i18n/index.js";
import { applyTheme, preference, setPreference } from "../preferences.js";

function choices(label, names, current, choose) {
  const buttons = Object.entries(names).map(([name, text]) =>
    button({
      class: "button",
      text,
      "aria-pressed": String(name === current),
      data: { testid: `choose-${name}` },
      onclick: () => choose(name),
    }),
  );
  return h("div", { class: "choices", role: "group", "aria-label": label }, ...buttons);
}

/** Buttons for the languages; `changed` shows the page again. */
export function languageChoice(changed) {
  return choices(t("settings.language"), LANGUAGES, currentLanguage(), (name) =>
    setLanguage(name).then(changed, () => {}),
  );
}

/** Buttons for light, dark and the system's theme. */
export function themeChoice() {
  const names = { system: t("theme.system"), light: t("theme.light"), dark: t("theme.dark") };
  const element = choices(t("settings.theme"), names, preference("theme", "system"), (name) => {
    setPreference("theme", name);
    applyTheme(name);
    for (const one of element.children)
      one.setAttribute("aria-pressed", String(one.dataset.testid === `choose-${name}`));
  });
  return element;
}
