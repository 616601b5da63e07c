/** @import { TransportFactory } from "../types.js" */
/** @param {typeof globalThis.WebSocket} [WebSocket] @returns {TransportFactory} */
export function webSocket(WebSocket?: typeof globalThis.WebSocket): TransportFactory;
/** Tries transports in turn until one received a frame, and keeps to it: to others than the first until they close.
 * @param {...TransportFactory} transports */
export function fallback(...transports: TransportFactory[]): (url: string, on: import("../types.js").TransportEvents) => import("../types.js").Transport;
/** @param {typeof globalThis.fetch} fetch @returns {TransportFactory} */
export function httpStream(fetch?: typeof globalThis.fetch): TransportFactory;
import type { TransportFactory } from "../types.js";
