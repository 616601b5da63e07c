// The words of the page. Keys are the same in every table; tests compare them. Only the table that is used is loaded:
// by its address, because the server sends this module as a part of the joined script.

import { GIVEN } from "../base.js";
import { preference, setPreference } from "../preferences.js";
import { withoutDirections } from "../text.js";

const TABLES = {
  en: () => import(GIVEN.en).then(({ en }) => en),
  zh: () => import(GIVEN.zh).then(({ zh }) => zh),
};
const LOCALES = { en: "en", zh: "zh-CN" };

let language = "en";
let table = {};
/** Texts of a script that comes later, by language. */
let later = {};
let plurals = new Intl.PluralRules("en");

/** Languages that can be chosen, with their own names. */
export const LANGUAGES = { en: "English", zh: "中文" };

/** Chooses the stored language, or the browser's first that there is a table for. */
export async function initLanguage() {
  const wanted = [preference("language", ""), ...navigator.languages].map((tag) => tag.split("-")[0].toLowerCase());
  await useLanguage(wanted.find((tag) => tag in TABLES) ?? "en");
}

/** Switches the language. Views that show text show it again. */
export async function useLanguage(name) {
  table = await TABLES[name]();
  language = name;
  plurals = new Intl.PluralRules(LOCALES[name]);
  document.documentElement.lang = LOCALES[name];
}

/** Switches the language and remembers it. */
export async function setLanguage(name) {
  await useLanguage(name);
  setPreference("language", name);
}

/** Adds the texts of a script that comes later: a table for each language. */
export const addTexts = (tables) => void (later = tables);

export const currentLanguage = () => language;
export const locale = () => LOCALES[language];

/** A text. `{name}` stands for a member of `values`; a text with `one` and `other` is chosen by `n`. */
export function t(key, values = {}) {
  return pattern(key, values).replace(/\{(\w+)\}/g, (_, name) => format(values[name]));
}

/** A text whose values may be nodes: what `element.append(...)` takes. */
export function tNodes(key, values = {}) {
  return pattern(key, values)
    .split(/\{(\w+)\}/)
    .map((part, index) =>
      index % 2 === 0 ? part : values[part] instanceof Node ? values[part] : format(values[part]),
    );
}

function pattern(key, values) {
  const entry = table[key] ?? later[language]?.[key] ?? key;
  return typeof entry === "string" ? entry : (entry[plurals.select(values.n ?? 0)] ?? entry.other);
}

function format(value) {
  // A value can be a name: it must not turn the direction of the words around it.
  return typeof value === "number" ? value.toLocaleString(LOCALES[language]) : withoutDirections(String(value ?? ""));
}
