// What is wrong with a view: axe-core, and what sticks out.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

const AXE = fileURLToPath(new URL("../node_modules/axe-core/axe.min.js", import.meta.url));
export const DESKTOP = { width: 1240, height: 1000 };
export const PHONE = { width: 390, height: 844 };

/** The rules that a view keeps, and how big what is pressed has to be. */
const RULES = {
  runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
  rules: { "target-size": { enabled: true } },
  resultTypes: ["violations"],
};

/** The findings of axe-core on the page, whatever their impact. */
export async function findings(browser) {
  const command = (cmd, params) => browser.call("POST", "/goog/cdp/execute", { cmd, params });
  await command("Runtime.evaluate", { expression: await readFile(AXE, "utf8") });
  const run = `axe.run(document, ${JSON.stringify(RULES)}).then(({ violations }) => JSON.stringify(violations
    .map(({ id, nodes }) => id + ": " + nodes.slice(0, 3)
      .map(({ target, failureSummary }) => target + " " + failureSummary).join("; "))))`;
  const { result } = await command("Runtime.evaluate", { expression: run, awaitPromise: true });
  return JSON.parse(result.value);
}

/** Checks that the page does not overflow horizontally. */
export async function fits(browser, what) {
  const over = await browser.run(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  // Below a dialog the gutter of the scrollbar is a part of the client.
  assert.ok(over <= 0, `${what} sticks out by ${over} px`);
}

/**
 * Checks a view in both themes and at both widths, and takes a picture of each: `name-light`, `name-dark-phone` and so
 * on. `prepare` runs before each picture. Ends at the width of a desktop, in the light theme.
 */
export async function inspect(browser, name, prepare = () => {}) {
  for (const dark of [false, true]) {
    for (const [size, ending] of [[DESKTOP, ""], [PHONE, "-phone"]]) {
      const what = `${name}-${dark ? "dark" : "light"}${ending}`;
      await browser.emulate({ ...size, dark });
      await fits(browser, what);
      assert.deepEqual(await findings(browser), [], what);
      await prepare();
      await browser.shot(what);
    }
  }
  await browser.emulate(DESKTOP);
}
