// The entry: theme and language first, then the page of the signed-in user, or the gate.

import { App } from "./app.js";
import { BASE } from "./base.js";
import { refreshTimes } from "./format.js";
import { initLanguage } from "./i18n/index.js";
import { listenToKeys } from "./keyboard.js";
import { applyTheme } from "./preferences.js";
import { loadSecondScript } from "./views/index.js";

const CLOCK_MS = 30_000;

applyTheme();
// Beside the language. Home and the gate do not need it.
if (!/^\/(sign-.*)?$/.test(location.pathname.slice(BASE.length))) loadSecondScript().catch(() => {});
await initLanguage();
const app = new App(document.getElementById("root"));
listenToKeys(app);
app.start();

setInterval(refreshTimes, CLOCK_MS);
document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && refreshTimes());
