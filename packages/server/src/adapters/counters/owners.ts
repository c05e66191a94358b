import type { AdmissionDemand, AdmissionTicket, ExtensionDemand } from '@baobab/core/ports/counters.ts';

/** An admission of the memory counters. Links to its neighbours, because a linked list is cheaper than a map that shrinks all the time. */
export class HeldAdmission implements AdmissionTicket {
  demand: AdmissionDemand;
  state: 'running' | 'expired' | 'settled' = 'running';
  previous: HeldAdmission | undefined;
  next: HeldAdmission | undefined;

  constructor(demand: AdmissionDemand) {
    this.demand = demand;
  }

  get id(): string {
    return this.demand.id;
  }

  get owner(): string {
    return this.demand.owner;
  }
}

/** What an admission holds after it was extended. */
export function extended(demand: AdmissionDemand, { tokens, budgets: more }: ExtensionDemand): AdmissionDemand {
  const held = new Map(demand.budgets.map((budget) => [budget.id, budget]));
  for (const budget of more) {
    const reserveNanoUsd = (held.get(budget.id)?.reserveNanoUsd ?? 0) + budget.reserveNanoUsd;
    held.set(budget.id, { ...budget, reserveNanoUsd });
  }
  const amount = demand.tokens.amount + tokens;
  return { ...demand, tokens: { ...demand.tokens, amount }, budgets: [...held.values()] };
}

interface Owner {
  leaseUntil: number;
  first: HeldAdmission | undefined;
}

/** The owners of admissions, each with a lease and a list of what it holds. */
export class Owners {
  readonly #owners = new Map<string, Owner>();

  renew(id: string, leaseUntil: number): Owner {
    let owner = this.#owners.get(id);
    if (owner === undefined) {
      owner = { leaseUntil, first: undefined };
      this.#owners.set(id, owner);
    }
    owner.leaseUntil = Math.max(owner.leaseUntil, leaseUntil);
    return owner;
  }

  hold(owner: Owner, demand: AdmissionDemand): HeldAdmission {
    const held = new HeldAdmission(demand);
    held.next = owner.first;
    if (owner.first !== undefined) owner.first.previous = held;
    owner.first = held;
    return held;
  }

  settle(held: HeldAdmission): void {
    held.state = 'settled';
    if (held.next !== undefined) held.next.previous = held.previous;
    if (held.previous !== undefined) held.previous.next = held.next;
    else {
      const owner = this.#owners.get(held.owner);
      if (owner?.first === held) owner.first = held.next;
    }
    held.previous = undefined;
    held.next = undefined;
  }

  /** Removes owners whose lease is over and returns what they held. */
  expire(now: number): HeldAdmission[] {
    const expired: HeldAdmission[] = [];
    // An owner that is alone is the caller, so it is alive.
    if (this.#owners.size <= 1) return expired;
    for (const [id, { leaseUntil, first }] of this.#owners) {
      if (leaseUntil > now) continue;
      this.#owners.delete(id);
      for (let held = first; held !== undefined; held = held.next) {
        held.state = 'expired';
        expired.push(held);
      }
    }
    return expired;
  }
}
