/**
 * How shares treat the past. `work`: what was served keeps counting, and unused time earns no credit. `slots`: what was served counts
 * until it is given back, as a slot is when it is free again.
 */
export type Counting = 'work' | 'slots';

/** Members are forgotten in one sweep, when so many more are known than after the last one. */
const SWEEP_AFTER = 64;

/** A part of what a queue serves: that of a class of requests, an account or a key. */
export class Share {
  readonly name: string;
  weight = 1;
  /** Requests that wait in this share. */
  waiting = 0;
  /** How much it was served, for its weight. */
  served = 0;
  /** When it had its last turn. */
  turn = 0;
  /** In `slots`: how many it has. */
  held = 0;
  readonly #counting: Counting;
  readonly #siblings: Members | undefined;
  #members: Members | undefined;

  constructor(counting: Counting, name = '', siblings?: Members) {
    this.#counting = counting;
    this.name = name;
    this.#siblings = siblings;
  }

  get members(): Members {
    this.#members ??= new Members(this, this.#counting);
    return this.#members;
  }

  /** Its waiting requests for its weight. */
  get line(): number {
    return this.waiting / this.weight;
  }

  /** A request of this share begins to wait (1) or leaves (-1). */
  changeWaiting(by: 1 | -1): void {
    this.waiting += by;
    this.#siblings?.changed(this, by === 1 && this.waiting === 1);
    this.#siblings?.of.changeWaiting(by);
  }

  /** Counts what it is given now, here and above. */
  serve(amount: number): void {
    this.#siblings?.serving(this);
    this.#siblings?.count(this, amount);
    this.#siblings?.of.serve(amount);
  }

  /** Counts that it took more, or less, than was expected when it was served. */
  correct(amount: number): void {
    this.#siblings?.count(this, amount);
    this.#siblings?.of.correct(amount);
  }

  /** It had its turn. */
  endTurn(): void {
    this.#siblings?.endTurn(this);
    this.#siblings?.of.endTurn();
  }
}

/**
 * Shares of one whole. The one that was served least for its weight goes next (start-time fair queueing). One that begins to wait starts
 * where the others are: the time before gives it no advantage, and what it used while no other share waited costs it nothing.
 */
class Members {
  readonly of: Share;
  readonly #counting: Counting;
  readonly #known = new Map<string, Share>();
  readonly #next = new Heap<Share>(
    (one, other) => one.served < other.served || (one.served === other.served && one.turn < other.turn),
  );
  readonly #longest = new Heap<Share>((one, other) => one.line > other.line);
  #turns = 0;
  /** Where the member was that was served last. */
  #now = 0;
  #sweepAt = SWEEP_AFTER;

  constructor(of: Share, counting: Counting) {
    this.of = of;
    this.#counting = counting;
  }

  known(name: string): Share | undefined {
    return this.#known.get(name);
  }

  get(name: string, weight = 1): Share {
    let member = this.#known.get(name);
    if (member === undefined) {
      this.#sweep();
      member = new Share(this.#counting, name, this);
      member.served = this.#now;
      this.#known.set(name, member);
    }
    if (member.weight !== weight) {
      member.weight = weight;
      this.count(member, 0);
      if (this.#longest.has(member)) this.#longest.put(member);
    }
    return member;
  }

  /** The waiting member whose turn it is. */
  next(): Share | undefined {
    return this.#next.first();
  }

  /** The one with the most waiting requests for its weight. */
  longest(): Share | undefined {
    return this.#longest.first();
  }

  /** Passes it over until it is brought back. */
  setAside(member: Share): void {
    this.#next.remove(member);
  }

  bringBack(member: Share): void {
    if (member.waiting > 0) this.#next.put(member);
  }

  changed(member: Share, begins: boolean): void {
    if (member.waiting === 0) {
      this.#next.remove(member);
      this.#longest.remove(member);
      return;
    }
    if (begins) {
      this.#catchUp(member);
      member.turn = ++this.#turns;
      this.#next.put(member);
    }
    this.#longest.put(member);
  }

  serving(member: Share): void {
    if (member.waiting === 0) this.#catchUp(member);
    if (this.#counting === 'work') this.#now = Math.max(this.#now, member.served);
  }

  count(member: Share, amount: number): void {
    if (this.#counting === 'work') member.served += amount / member.weight;
    else {
      member.held += amount;
      member.served = member.held / member.weight;
    }
    if (this.#next.has(member)) this.#next.put(member);
  }

  endTurn(member: Share): void {
    member.turn = ++this.#turns;
    if (this.#next.has(member)) this.#next.put(member);
  }

  #catchUp(member: Share): void {
    if (this.#counting === 'work') member.served = Math.max(member.served, this.#now);
  }

  /** Forgets those that would begin at the same place if they were new. */
  #sweep(): void {
    if (this.#known.size < this.#sweepAt) return;
    for (const [name, { waiting, served }] of this.#known) {
      if (waiting === 0 && served <= this.#now) this.#known.delete(name);
    }
    this.#sweepAt = SWEEP_AFTER + 2 * this.#known.size;
  }
}

/** A binary heap whose members may change their order: the first is known at once, every change takes a logarithm of their number. */
class Heap<T extends object> {
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

/** Smaller requests cannot hold up a large one forever: it has one of this many turns. */
const TURNS_FOR_OLDEST = 4;

/**
 * Which request of an account is next: the one with the least work left, the oldest of about equal ones. So a short one never waits for the end
 * of a long one, and long ones end one after the other: if they took turns, all would end together.
 */
export class RequestOrder {
  #turn = 1;

  /** The lowest is next. Requests with the same rank go by their age. */
  rank(left: number): number {
    return this.#turn % TURNS_FOR_OLDEST === 0 ? 0 : Math.floor(Math.log2(left));
  }

  endTurn(): void {
    this.#turn += 1;
  }
}
