/** @extends {Emitter<{change: void}>} */
export class People extends Emitter<{
    change: void;
}> {
    /** @param {import("./client.js").Client} client */
    constructor({ connection }: import("./client.js").Client);
    /** A person as far as known: a "change" follows when more is. @param {string} id @returns {Person} */
    get(id: string): Person;
    /** @param {Record<string, Person>} [people] */
    add(people?: Record<string, Person>): void;
    #private;
}
import { Emitter } from "./emitter.js";
import type { Person } from "../types.js";
