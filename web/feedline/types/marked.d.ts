/** It is read with the first `reload()` or `ready()`, and anew after a lost connection.
 * @template {{id: string}} Item @extends {Pages<ItemList<Item>>} */
export class Marked<Item extends {
    id: string;
}> extends Pages<ItemList<Item>> {
    /** @param {import("./client.js").Client} client @param {import("../types.js").Source} source
     * @param {(id: string, wanted: boolean) => Promise<unknown>} write stores it */
    constructor(client: import("./client.js").Client, source: import("../types.js").Source, write: (id: string, wanted: boolean) => Promise<unknown>);
    /** As far as they were read, the latest first. */
    get items(): Item[];
    /** Whether it is marked; `known` is what a page said of it. @param {string | number} id */
    has(id: string | number, known?: boolean): boolean;
    /** @param {string | number} id @returns {Promise<boolean>} whether it was stored; if not, "reverted" says why */
    add: (id: string | number) => Promise<boolean>;
    /** @param {string | number} id @returns {Promise<boolean>} as of `add` */
    remove: (id: string | number) => Promise<boolean>;
    #private;
}
import { ItemList } from "./pages.js";
import { Pages } from "./pages.js";
