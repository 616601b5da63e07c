// Choosing the theme.

import { tm } from "../i18n/more.js";
import { applyTheme, preference, setPreference } from "../preferences.js";
import { choices } from "./choices.js";

/** Buttons for light, dark and the system's theme. */
export function themeChoice() {
  const names = { system: tm("theme.system"), light: tm("theme.light"), dark: tm("theme.dark") };
  const element = choices(tm("settings.theme"), names, preference("theme", "system"), (name) => {
    setPreference("theme", name);
    applyTheme(name);
    for (const one of element.children)
      one.setAttribute("aria-pressed", String(one.dataset.testid === `choose-${name}`));
  });
  return element;
}
