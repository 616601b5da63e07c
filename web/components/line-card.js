// "Your line": the state in a word, the latency from publish to screen, and what one can do to it.

import { button, h, setText, svg } from "../dom.js";
import { lineButtons } from "./line-buttons.js";
import { span } from "../format.js";
import { icon } from "../icons.js";
import { locale, t } from "../i18n/index.js";
import { RECOVERED_MS } from "../line.js";

const WIDTH = 268;
const HEIGHT = 44;
const POINTS = 60;
/** Close codes that say why the connection was lost. */
const SHUTDOWN = 3001;
const SLOW = 3008;
const LOST_NOTES = { [SHUTDOWN]: "line.note.shutdown", [SLOW]: "line.note.slow" };

/** Whether there is no network, as far as the browser knows, or the user went offline. */
export const isOffline = ({ name }) => name === "offline" || (name === "lost" && navigator.onLine === false);

/** The word for the state of the connection. */
export function lineWord(line) {
  const { state, resumed } = line;
  if (isOffline(state)) return t("line.offline");
  if (state.name === "lost" && state.code === SLOW) return t("line.slow");
  if (state.name === "ended") return t(state.signedOut ? "line.signed-out" : "line.ended");
  if (state.name === "live" && resumed?.kind === "recovered" && Date.now() - resumed.at < RECOVERED_MS)
    return t("line.recovered");
  return t(`line.${state.name}`);
}

/** The sentence below the word: what happened, and what to do. */
export function lineNote(line) {
  const { state, resumed } = line;
  const since = span(Date.now() - state.since);
  if (isOffline(state)) return t("line.note.offline");
  if (state.name === "lost")
    return t(LOST_NOTES[state.code] ?? "line.note.lost", { span: since });
  if (state.name === "ended")
    return t(state.signedOut ? "line.note.signed-out" : "line.note.ended", { reason: state.reason });
  if (state.name === "live" && resumed && Date.now() - resumed.at < RECOVERED_MS) {
    if (resumed.kind !== "recovered") return t("line.note.reloaded");
    return resumed.posts > 0 ? t("line.note.recovered", { n: resumed.posts }) : t("line.note.nothing");
  }
  return "";
}

/** Latencies as a line; a hairline as long as there are none. */
export class Sparkline {
  #line = svg("polyline", { points: "" });
  element = svg(
    "svg",
    {
      class: "sparkline",
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": t("line.plot"),
    },
    svg("line", { x1: 0, x2: WIDTH, y1: HEIGHT - 4, y2: HEIGHT - 4 }),
    this.#line,
  );

  update(latencies) {
    const values = latencies.slice(-POINTS).map(({ ms }) => Math.max(0, ms));
    if (values.length === 1) values.push(values[0]);
    const most = Math.max(40, ...values);
    const x = (index) => (index / Math.max(1, values.length - 1)) * WIDTH;
    const y = (ms) => HEIGHT - 4 - (ms / most) * (HEIGHT - 10);
    this.#line.setAttribute(
      "points",
      values.map((ms, index) => `${x(index).toFixed(1)},${y(ms).toFixed(1)}`).join(" "),
    );
  }
}

/** The card in the right column. */
export class LineCard {
  #app;
  #word = h("span", { class: "line-word", data: { testid: "connection-text" } });
  #latency = h("span", { class: "latency" });
  #buttons;
  #note = h("p", { class: "line-note", data: { testid: "line-note" } });
  #plot = new Sparkline();
  #stops;
  element;

  constructor(app) {
    this.#app = app;
    const open = button(
      { class: "button", data: { testid: "curtain" }, onclick: () => app.openDrawer() },
      icon("lines"),
      t("curtain"),
    );
    this.#buttons = lineButtons(app);
    const state = h(
      "p",
      { class: "line-state" },
      h("span", { class: "line-dot", "aria-hidden": "true" }),
      this.#word,
      this.#latency,
    );
    this.element = h(
      "section",
      { class: "card panel line-card", "aria-labelledby": "line-title", data: { testid: "connection" } },
      h("h2", { id: "line-title", text: t("line") }),
      state,
      this.#plot.element,
      h("div", { class: "line-foot" }, this.#note),
      h("div", { class: "line-buttons" }, ...this.#buttons.elements, open),
    );
    let frame = 0;
    const soon = () =>
      (frame ||= requestAnimationFrame(() => {
        frame = 0;
        this.#render();
      }));
    this.#stops = [
      app.line.on(() => this.#render()),
      app.tap.on(soon),
      () => cancelAnimationFrame(frame),
    ];
    this.#render();
  }

  close() {
    for (const stop of this.#stops) stop();
  }

  #render() {
    const { line, client, tap } = this.#app;
    const { latencies, positions } = tap;
    this.element.dataset.state = line.state.name;
    this.element.querySelector(".line-state").dataset.state = line.state.name;
    setText(this.#word, lineWord(line));
    const isLive = line.state.name === "live";
    setText(this.#note, lineNote(line) || (isLive && latencies.length === 0 ? t("line.note.idle") : ""));
    const last = isLive && latencies.at(-1);
    setText(this.#latency, last ? `${Math.max(0, Math.round(last.ms)).toLocaleString(locale())} ms` : "");
    this.element.dataset.position = positions.get(`timeline:${client.user}`)?.offset ?? 0;
    this.#plot.element.toggleAttribute("hidden", latencies.length === 0);
    this.#plot.update(latencies);
    this.#buttons.render();
  }
}

/** The pill that stands for the card where there is no room for it. */
export class LinePill {
  #word = h("span");
  element;

  constructor(app) {
    this.element = button(
      { class: "pill", "aria-haspopup": "dialog", data: { testid: "pill" }, onclick: () => app.openDrawer() },
      h("span", { class: "pill-dot", "aria-hidden": "true" }),
      this.#word,
    );
    const render = () => {
      this.element.dataset.state = app.line.state.name;
      setText(this.#word, lineWord(app.line));
      this.element.title = lineNote(app.line);
    };
    this.close = app.line.on(render);
    render();
  }
}
