// The HTTP side: accounts, posts, follows.

const TIMEOUT_MS = 10_000;

/** An error of the API, or of the network (`code` is then "unreachable"). */
export class ApiError extends Error {
  /** @param {number} status the HTTP status; 0 without an answer */
  constructor(status, { code, message, field }) {
    super(message);
    this.status = status;
    this.code = code;
    this.field = field ?? null;
  }
}

/** The operations that the page uses, on behalf of the user of `token()`. */
export class Api {
  #token;
  #fetch;

  /** @param {() => string | null} token */
  constructor(token, fetch = globalThis.fetch.bind(globalThis)) {
    this.#token = token;
    this.#fetch = fetch;
  }

  signUp(account) {
    return this.#call("POST", "/accounts", { body: account });
  }

  signIn(credentials) {
    return this.#call("POST", "/sessions", { body: credentials });
  }

  /** Ends the session on the server. */
  signOut() {
    return this.#call("DELETE", "/sessions");
  }

  user(id) {
    return this.#call("GET", `/users/${encodeURIComponent(id)}`);
  }

  follow(id) {
    return this.#call("PUT", `/users/${encodeURIComponent(id)}/follow`);
  }

  unfollow(id) {
    return this.#call("DELETE", `/users/${encodeURIComponent(id)}/follow`);
  }

  following(id, cursor) {
    const query = cursor ? `?limit=100&cursor=${encodeURIComponent(cursor)}` : "?limit=100";
    return this.#call("GET", `/users/${encodeURIComponent(id)}/following${query}`);
  }

  createPost(text) {
    return this.#call("POST", "/posts", { body: { text } });
  }

  deletePost(id) {
    return this.#call("DELETE", `/posts/${id}`);
  }

  async #call(method, path, { body } = {}) {
    const token = this.#token();
    const request = { method, headers: {}, cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS) };
    if (token) request.headers.authorization = `Bearer ${token}`;
    if (body !== undefined) {
      request.headers["content-type"] = "application/json";
      request.body = JSON.stringify(body);
    }
    let response;
    let answer;
    try {
      response = await this.#fetch(`/api/v1${path}`, request);
      answer = parse(await response.text());
    } catch {
      throw new ApiError(0, { code: "unreachable", message: "The server cannot be reached. Try again." });
    }
    if (response.ok) return answer;
    const unknown = { code: "unknown", message: `The server answered ${response.status}.` };
    throw new ApiError(response.status, answer?.error ?? unknown);
  }
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
