// Theme and language: of the browser, not of the user, so they are the same in every tab.

/** A preference; in a browser that forbids storage, the fallback. */
export function preference(name, fallback) {
  try {
    return localStorage.getItem(`feedline.${name}`) ?? fallback;
  } catch {
    return fallback;
  }
}

/** Stores a preference. */
export function setPreference(name, value) {
  try {
    localStorage.setItem(`feedline.${name}`, value);
  } catch {
    // It holds until the next reload.
  }
}

/** Applies "light", "dark" or "system". */
export function applyTheme(theme = preference("theme", "system")) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}
