import type { AdmissionDemand, AdmissionTicket } from '@baobab/core/ports/counters.ts';

/** An admission of this process that is not settled. */
export class HeldAdmission implements AdmissionTicket {
  demand: AdmissionDemand;
  /** The stay (see membership.ts) in which Redis learned of it; undefined while Redis does not know it. */
  stay: number | undefined;
  /** Its counterpart in the counters of this process alone, while Redis is away. */
  local: AdmissionTicket | undefined;
  isSettled = false;

  constructor(demand: AdmissionDemand, stay?: number) {
    this.demand = demand;
    this.stay = stay;
  }

  get id(): string {
    return this.demand.id;
  }

  get owner(): string {
    return this.demand.owner;
  }
}

/** What Redis gives back when the owner of an admission is gone. */
export const heldText = ({ concurrency, budgets, chargeable }: AdmissionDemand): string =>
  JSON.stringify({
    c: concurrency.map(({ id }) => id),
    b: budgets.map(({ id, reserveNanoUsd }) => [id, reserveNanoUsd]),
    x: chargeable,
  });
