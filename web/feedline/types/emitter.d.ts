/** Calls back: an error in there is reported, and does not break the caller. @param {() => void} callback */
export function isolate(callback: () => void): void;
/** @template {Record<string, any>} Events */
export class Emitter<Events extends Record<string, any>> {
    /** Calls `listener` on each event of this type, until the returned function is called.
     * @template {keyof Events} Type @param {Type} type @param {(event: Events[Type]) => void} listener */
    on<Type extends keyof Events>(type: Type, listener: (event: Events[Type]) => void): () => undefined;
    /** @template {keyof Events} Type @param {Type} type @param {Events[Type]} event */
    emit<Type extends keyof Events>(type: Type, event: Events[Type]): void;
    /** Emits one "change" for all changes of the current task: many arrivals in one frame are drawn once. */
    changed(): void;
    #private;
}
