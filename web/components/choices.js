// Buttons of which one is pressed, and the choice of the language.

import { button, h } from "../dom.js";
import { currentLanguage, LANGUAGES, setLanguage, t } from "../i18n/index.js";

/** A button for each of `names`; `choose(name)` is called with a click. */
export function choices(label, names, current, choose) {
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
