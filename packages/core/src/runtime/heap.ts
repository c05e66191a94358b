/** A binary heap whose members may change their order: the first is known at once, every change takes a logarithm of their number. */
export class Heap<T extends object> {
  readonly #items: T[] = [];
  readonly #places = new Map<T, number>();
  readonly #isBefore: (one: T, other: T) => boolean;

  constructor(isBefore: (one: T, other: T) => boolean) {
    this.#isBefore = isBefore;
  }

  get size(): number {
    return this.#items.length;
  }

  first(): T | undefined {
    return this.#items[0];
  }

  has(item: T): boolean {
    return this.#places.has(item);
  }

  /** Adds it, or moves it to where it belongs now. */
  put(item: T): void {
    let place = this.#places.get(item);
    if (place === undefined) {
      place = this.#items.length;
      this.#items.push(item);
    }
    this.#sink(item, this.#rise(item, place));
  }

  remove(item: T): void {
    const place = this.#places.get(item);
    if (place === undefined) return;
    this.#places.delete(item);
    const last = this.#items.pop();
    if (last === undefined || last === item) return;
    this.#sink(last, this.#rise(last, place));
  }

  #set(item: T, place: number): void {
    this.#items[place] = item;
    this.#places.set(item, place);
  }

  #rise(item: T, from: number): number {
    let place = from;
    while (place > 0) {
      const above = (place - 1) >> 1;
      const parent = this.#items[above] as T;
      if (!this.#isBefore(item, parent)) break;
      this.#set(parent, place);
      place = above;
    }
    this.#set(item, place);
    return place;
  }

  #sink(item: T, from: number): void {
    let place = from;
    for (;;) {
      let below = 2 * place + 1;
      const [left, right] = [this.#items[below], this.#items[below + 1]];
      if (left === undefined) break;
      if (right !== undefined && this.#isBefore(right, left)) below += 1;
      const child = this.#items[below] as T;
      if (!this.#isBefore(child, item)) break;
      this.#set(child, place);
      place = below;
    }
    this.#set(item, place);
  }
}
