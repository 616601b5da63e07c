// What a page for development has besides.

/** Whether the page is served to this machine alone. Elsewhere there is no crowd. */
export const isDevelopment = () => ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);
