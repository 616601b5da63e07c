// Operations over HTTP: those before there is a connection (signing in and up), and those that end it.

import { BASE } from "./base.js";

const TIMEOUT_MS = 10_000;

/** An error of the API; `code` is the HTTP status, 0 without a response. `reason` is the API's code. */
export class ApiError extends Error {
  constructor(code, { code: reason, message, field = null }) {
    super(message);
    Object.assign(this, { code, reason, field });
  }
}

/** Calls an operation by its path below `/api/v1`, with the token of a session, or the `key` of a backend. */
export async function request(method, path, { token, key, body } = {}) {
  const headers = {};
  if (token) headers.authorization = `Bearer ${token}`;
  if (key) headers["x-api-key"] = key;
  if (body) headers["content-type"] = "application/json";
  let response;
  let answer;
  try {
    const options = { method, headers, cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS) };
    response = await fetch(`${BASE}/api/v1${path}`, { ...options, ...(body && { body: JSON.stringify(body) }) });
    answer = parse(await response.text());
  } catch {
    throw new ApiError(0, { code: "unreachable", message: "the server cannot be reached" });
  }
  if (response.ok) return answer;
  throw new ApiError(response.status, answer?.error ?? { code: "unknown", message: `status ${response.status}` });
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** Signs in; answers `{user, token, expires_at}`. */
export const signIn = (credentials) => request("POST", "/sessions", { body: credentials });

/** Creates an account and signs in. */
export const signUp = (account) => request("POST", "/accounts", { body: account });
