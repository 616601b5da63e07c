// The page is served by Vite, and the server of Feedline behind it, so that both have the same origin.

const target = process.env.FEEDLINE ?? "http://127.0.0.1:8000";
const proxy = { "/connection": { target, ws: true }, "/emulation": { target } };

export default {
  esbuild: { jsx: "automatic" },
  resolve: { dedupe: ["react"] },
  server: { proxy },
  preview: { proxy },
};
