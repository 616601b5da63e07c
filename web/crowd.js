// A crowd for development: a few accounts that post, like and comment, so that there is something to look at.

import { request, signUp } from "./api.js";
import { newKey } from "./feedline/timeline.js";

const NAMES = ["Ada Brook", "Ben Okoro", "Chen Wei", "Dora Lund"];
const PACE_MS = 1_200;
const POSTS = [
  "The ferry is late, the gulls are not. #harbour",
  "Found a bookshop with a cat in the window. The cat is not for sale.",
  "Third attempt at the crossword. It is winning.",
  "雨停了，出去走走。 #散步",
  "Soup again. No complaints so far.",
  "Does anybody else name their plants? #balcony",
];
const COMMENTS = ["Same here.", "Tell us more.", "有意思！", "Not on a Monday."];

const pick = (list) => list[Math.floor(Math.random() * list.length)];

const leave = (token) => request("DELETE", "/accounts", { token });

/** Simulated people whom the user follows while they are here. */
export class Crowd {
  #app;
  /** The sessions of the members. */
  #tokens = [];
  #timer = null;

  constructor(app) {
    this.#app = app;
  }

  get isHere() {
    return this.#timer !== null;
  }

  /** Creates the accounts, follows them, and lets them act. */
  async start() {
    const { connection } = this.#app.client;
    this.#timer = setInterval(() => this.#act(), PACE_MS);
    try {
      for (const name of NAMES) {
        const key = newKey();
        const user = `crowd-${key.slice(0, 6)}`;
        const { token } = await signUp({ user, name, password: key });
        if (!this.isHere) return await leave(token);
        this.#tokens.push(token);
        await connection.rpc("users.follow", { id: user });
      }
    } catch (error) {
      await this.stop();
      throw error;
    }
  }

  /** Deletes the accounts, and with them everything that they wrote. */
  async stop() {
    clearInterval(this.#timer);
    this.#timer = null;
    await Promise.allSettled(this.#tokens.splice(0).map(leave));
  }

  /** One member does one thing. What fails, as over a rate limit, is not repeated. */
  #act() {
    if (this.#tokens.length === 0) return;
    const token = pick(this.#tokens);
    const call = (method, path, body) => request(method, path, { token, ...(body && { body }) }).catch(() => {});
    const stored = this.#app.client.timeline.entries.filter(({ state }) => state === "stored").slice(0, 8);
    const chance = Math.random();
    if (chance < 0.5 || stored.length === 0) return call("POST", "/posts", { text: pick(POSTS) });
    const { id } = pick(stored);
    if (chance < 0.85) return call("PUT", `/posts/${id}/like`);
    return call("POST", `/posts/${id}/comments`, { text: pick(COMMENTS) });
  }
}
