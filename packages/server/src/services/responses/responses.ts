import type { Account, Principal } from '@baobab/core/domain/principal.ts';
import { isActiveResponse, type RecordedEvents, type StoredResponse } from '@baobab/core/domain/response.ts';
import { ApiError } from '@baobab/core/errors/api-error.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { StorageFullError } from '@baobab/core/errors/store-unavailable.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { ResponseRepository } from '@baobab/core/ports/responses.ts';
import type { AccountTurns } from '../../admission/account-turns.ts';
import type { ConversationsService } from './conversations.ts';

export interface ResponsesSettings {
  retentionDays: number;
  /** 0: no limit, like the two below. */
  quotaBytes: number;
  quotaResponses: number;
  maxActivePerAccount: number;
  /** Largest size of what one request continues or refers to. */
  maxHistoryBytes: number;
}

/** A response as its endpoint describes it; who stores it and for how long is added here. */
export type NewResponse = Omit<StoredResponse, 'accountId' | 'keyId' | 'expiresAt'>;

/** Responses that a request refers to, or the id of the first one that does not exist. */
export type ReferredResponses = readonly StoredResponse[] | { missing: string };

export interface SaveOptions {
  /** The responses that it continues. */
  ancestors: readonly string[];
  /** Items for its conversation. */
  items?: readonly { id: string; content: string }[] | undefined;
  /** The first events of its stream, if they are recorded. */
  events?: RecordedEvents | undefined;
}

/** Keeps responses so that clients can retrieve and continue them. Nothing crosses accounts. */
export interface ResponsesService {
  /**
   * Whether a response of this account is kept. Over quota, a client that asked for it is refused; one that did not gets an answer
   * that is not kept.
   */
  keeps(account: Account, wanted: boolean | undefined): Promise<boolean>;
  /** A response and those that it continues, oldest first. Throws 404 if one of them is gone, 422 if they are too large to be read. */
  history(accountId: string, id: string): Promise<StoredResponse[]>;
  /** Resolves when it is durable. False: there is no room for it. */
  save(principal: Principal, response: NewResponse, options: SaveOptions): Promise<boolean>;
  /** Stores a response that will run in the background. */
  enqueue(principal: Principal, response: NewResponse, request: string, options: SaveOptions): Promise<void>;
  /** Throws 404 for responses that do not exist, have expired or belong to another account. */
  get(accountId: string, id: string): Promise<StoredResponse>;
  find(accountId: string, id: string): Promise<StoredResponse | undefined>;
  /** All of them, in any order; or one that is missing. Throws 422 if they are too large to be read together. */
  findAll(accountId: string, ids: readonly string[]): Promise<ReferredResponses>;
  remove(accountId: string, id: string): Promise<void>;
  /** Ends a background response. `cancelled` writes its content. */
  cancel(accountId: string, id: string, cancelled: (response: StoredResponse) => string): Promise<StoredResponse>;
  /** Removes expired ones. True when there may be more. */
  sweep(): Promise<boolean>;
}

export interface ResponsesDependencies {
  responses: ResponseRepository;
  conversations: Pick<ConversationsService, 'expiryOf'>;
  settings: ResponsesSettings;
  /** Reads may be large. */
  reads: AccountTurns;
  clock: Clock;
  /** Wakes the runner. */
  onChange(): void;
}

/** Responses of one conversation that are read at most. Few models can read more turns. */
const MAX_CHAIN = 2_000;
const SWEEP_PAGE = 100;
const RETRY_SECONDS = 30;

export function createResponses(dependencies: ResponsesDependencies): ResponsesService {
  const { responses, conversations, settings, reads, clock, onChange } = dependencies;
  const quota = { items: settings.quotaResponses, bytes: settings.quotaBytes };

  const quotaExceeded = (items: number, bytes: number) =>
    errors.validationFailed(
      ['store'],
      `This account stores ${items} responses and conversations with ${bytes} bytes, which is its quota. Delete some, or send 'store': false.`,
    );

  async function create(
    { account, key }: Principal,
    response: NewResponse,
    { ancestors, items, events }: SaveOptions,
    request?: string,
  ): Promise<boolean> {
    const now = clock.now();
    const expiresAt = conversations.expiryOf(account, now);
    const { conversationId } = response;
    return responses.create(
      { ...response, accountId: account.id, keyId: key.id, expiresAt },
      {
        quota,
        request,
        maxActive: settings.maxActivePerAccount,
        ancestors,
        events,
        items: conversationId !== null && items ? { conversationId, items, now, expiresAt } : undefined,
      },
    );
  }

  const service: ResponsesService = {
    async keeps(account, wanted) {
      if (wanted === false || account.zeroRetention) return false;
      const { items, bytes } = await responses.stored(account.id);
      const isFull = (quota.items > 0 && items >= quota.items) || (quota.bytes > 0 && bytes >= quota.bytes);
      if (isFull && wanted) throw quotaExceeded(items, bytes);
      return !isFull;
    },

    async history(accountId, id) {
      const limits = { responses: MAX_CHAIN, bytes: settings.maxHistoryBytes };
      const chain = await reads.run(accountId, () => responses.chain(accountId, id, limits));
      const last = chain.at(-1);
      if (last === undefined || last.expiresAt <= clock.now()) throw errors.previousResponseNotFound(id);
      const missing = chain[0]?.previousId;
      if (missing) {
        if (await service.find(accountId, missing)) throw errors.historyTooLong(['previousResponseId'], limits.bytes);
        throw new ApiError(
          'previous_response_not_found',
          `The response '${id}' continues '${missing}', which was deleted or has expired.`,
          { field: ['previousResponseId'] },
        );
      }
      if (isActiveResponse(last.status)) {
        throw errors.invalidParameter(['previousResponseId'], `The response '${id}' has not ended yet.`);
      }
      return chain;
    },

    async save(principal, response, options) {
      try {
        return await create(principal, response, options);
      } catch (error) {
        if (error instanceof StorageFullError) return false;
        throw error;
      }
    },

    async enqueue(principal, response, request, options) {
      const { id } = principal.account;
      if (!(await create(principal, response, options, request))) {
        const { maxActivePerAccount: limit } = settings;
        if (limit > 0 && (await responses.countActive(id)) >= limit) {
          throw new ApiError(
            'capacity_exceeded',
            `This account has ${limit} background responses that have not ended, which is the limit. Wait until one ends.`,
            { retryAfterSeconds: RETRY_SECONDS },
          );
        }
        const { items, bytes } = await responses.stored(id);
        throw quotaExceeded(items, bytes);
      }
      onChange();
    },

    async find(accountId, id) {
      const response = await reads.run(accountId, () => responses.get(accountId, id));
      return response && response.expiresAt > clock.now() ? response : undefined;
    },

    async findAll(accountId, ids) {
      const { maxHistoryBytes: maxBytes } = settings;
      const found = await reads.run(accountId, () => responses.getAll(accountId, ids, { now: clock.now(), maxBytes }));
      if (found === 'too large') throw errors.historyTooLong(['messages'], maxBytes);
      return found;
    },

    async get(accountId, id) {
      const response = await service.find(accountId, id);
      if (response === undefined) throw errors.responseNotFound(id);
      return response;
    },

    async remove(accountId, id) {
      await service.get(accountId, id);
      await responses.delete(accountId, id);
      onChange();
    },

    async cancel(accountId, id, cancelled) {
      const response = await service.get(accountId, id);
      if (!response.background) {
        throw errors.invalidParameter(
          ['id'],
          `The response '${id}' does not run in the background and cannot be cancelled.`,
        );
      }
      if (isActiveResponse(response.status)) {
        await responses.cancel(accountId, id, cancelled(response));
        onChange();
      }
      return service.get(accountId, id);
    },

    async sweep() {
      return (await responses.deleteExpired(clock.now(), SWEEP_PAGE)) >= SWEEP_PAGE;
    },
  };
  return service;
}
