// Where the page is on its host, and what its document says of the server.

/** The path below which the server is reached, without a slash at its end; empty at the root of the host. */
export const BASE = new URL(".", import.meta.url).pathname.slice(0, -1);

/** The address of something on this server or elsewhere: a path is one of this server. */
export const addressOf = (url) => url.replace(/^\/(?!\/)/, `${BASE}/`);

/** The addresses of the scripts that are loaded later, by name, and the limit of texts. */
export const GIVEN = document.querySelector("[data-more]").dataset;
