import { useEffect, useRef, useState } from 'preact/hooks';
import { queryClient } from '../../../api/query.ts';
import { useWorkAccount } from '../../../api/session.ts';
import { streamChat } from '../../../api/stream.ts';
import type { Model } from '../../../api/types.ts';
import { type Answer, type ChatSettings, requestBody, type Side, type Turn } from './conversation.ts';

export interface StreamedTurnsOptions {
  turns: Turn[];
  onTurns: (turns: Turn[]) => void;
  modelOf: (side: Side) => Model;
  settings: ChatSettings;
}

export interface StreamedTurns {
  running: boolean;
  /** Adds a turn and streams the answers of these sides into it. */
  add: (turn: Omit<Turn, 'id' | 'answers'>, sides: Side[]) => void;
  stop: () => void;
}

/** The id of a turn after these. */
export const nextId = (turns: Turn[]): number => (turns.at(-1)?.id ?? 0) + 1;

/** Sends the turns of a conversation. Leaving the page stops the answers. */
export function useStreamedTurns({ turns, onTurns, modelOf, settings }: StreamedTurnsOptions): StreamedTurns {
  const { query } = useWorkAccount();
  const [running, setRunning] = useState(false);
  const controller = useRef<AbortController>(undefined);
  useEffect(() => () => controller.current?.abort(), []);

  // Two streams change the same list: each works on the newest one.
  const latest = useRef(turns);
  latest.current = turns;
  const setTurns = (next: Turn[]) => {
    latest.current = next;
    onTurns(next);
  };
  const setAnswer = (turn: number, side: Side, answer: Answer) =>
    setTurns(
      latest.current.map((each) =>
        each.id === turn ? { ...each, answers: { ...each.answers, [side]: answer } } : each,
      ),
    );

  const stream = async (turn: number, side: Side, signal: AbortSignal) => {
    const { id } = modelOf(side);
    const begun = performance.now();
    let answer: Answer = { model: id, text: '', toolCalls: [] };
    const update = (changes: Partial<Answer>) => {
      answer = { ...answer, ...changes };
      setAnswer(turn, side, answer);
    };
    update({});
    try {
      await streamChat(requestBody(id, latest.current, side, settings), { signal, query }, (change) => {
        const started = change.text !== '' || change.toolCalls.length > 0;
        update({
          ...change,
          ...(started && answer.firstMs === undefined ? { firstMs: performance.now() - begun } : {}),
        });
      });
    } catch (error) {
      update(signal.aborted ? { stopped: true } : { error: error instanceof Error ? error.message : String(error) });
    }
    update({ totalMs: performance.now() - begun });
  };

  const start = async (turn: Turn, sides: Side[]) => {
    setTurns([...latest.current, turn]);
    const own = new AbortController();
    controller.current = own;
    setRunning(true);
    await Promise.all(sides.map((side) => stream(turn.id, side, own.signal)));
    setRunning(false);
    // The request may have loaded the model.
    void queryClient.invalidateQueries({ queryKey: ['models'] });
  };

  return {
    running,
    add: (turn, sides) => void start({ ...turn, id: nextId(latest.current), answers: {} }, sides),
    stop: () => controller.current?.abort(),
  };
}
