import { useState } from 'preact/hooks';
import type { Model } from '../../../api/types.ts';
import { Button } from '../../../components/button.tsx';
import { CopyButton } from '../../../components/copying.tsx';
import { TextField } from '../../../components/fields.tsx';
import { full, money, moneyExact } from '../../../format/numbers.ts';
import { duration } from '../../../format/times.ts';
import { texts } from '../../../texts/en/texts.ts';
import type { Answer, Side, Turn } from './conversation.ts';
import { costOf } from './cost.ts';

export interface TurnViewProps {
  turn: Turn;
  sides: Side[];
  models: Model[];
  /** Takes the results of the tools that an answer calls. Absent while they cannot be sent. */
  onResults?: ((side: Side, values: Record<string, string>) => void) | undefined;
}

/** What the person said, and the answers side by side. */
export function TurnView({ turn, sides, models, onResults }: TurnViewProps) {
  const { playground } = texts;
  return (
    <div class="chat-turn">
      {turn.text !== undefined && (
        <div class="chat-user" dir="auto">
          <span class="hidden-visually">{playground.you}: </span>
          {turn.text}
        </div>
      )}
      {turn.results && (
        <div class="chat-user mono small">
          {playground.toolResult}: {Object.values(turn.results.values).join(', ')}
        </div>
      )}
      <div class={sides.length > 1 ? 'chat-sides' : undefined}>
        {sides.map((side) => {
          const answer = turn.answers[side];
          return answer ? (
            <AnswerView
              key={side}
              answer={answer}
              model={models.find(({ id }) => id === answer.model)}
              onResults={onResults && ((values) => onResults(side, values))}
            />
          ) : (
            <div key={side} />
          );
        })}
      </div>
    </div>
  );
}

/** Before the first turn. */
export function Examples({ onExample }: { onExample: (text: string) => void }) {
  const { playground } = texts;
  return (
    <div class="chat-empty">
      <h2>{playground.emptyTitle}</h2>
      <p class="muted">{playground.emptyText}</p>
      <div class="row row-wrap chat-examples">
        {playground.examples.map((example) => (
          <Button key={example} size="small" onClick={() => onExample(example)}>
            {example}
          </Button>
        ))}
      </div>
    </div>
  );
}

interface AnswerViewProps {
  answer: Answer;
  model: Model | undefined;
  /** Takes the results of the tools that the answer calls. */
  onResults?: ((values: Record<string, string>) => void) | undefined;
}

function AnswerView({ answer, model, onResults }: AnswerViewProps) {
  const { playground } = texts;
  const done = answer.totalMs !== undefined;
  const waiting = !done && answer.text === '' && answer.toolCalls.length === 0;
  return (
    <article class="chat-answer" aria-busy={!done}>
      <div class="small strong truncate">{answer.model}</div>
      {waiting && <p class="muted small">{model?.status === 'cold' ? playground.loading : playground.waiting}…</p>}
      {answer.text !== '' && (
        <div class="chat-text" dir="auto" aria-live="polite">
          {answer.text}
          {!done && <span class="caret" aria-hidden="true" />}
        </div>
      )}
      {answer.toolCalls.length > 0 && <ToolCalls answer={answer} onResults={onResults} />}
      {answer.error !== undefined && (
        <p class="notice notice-bad" role="alert">
          {answer.error}
        </p>
      )}
      {done && <AnswerStats answer={answer} model={model} />}
    </article>
  );
}

function AnswerStats({ answer, model }: { answer: Answer; model: Model | undefined }) {
  const { usage, firstMs, totalMs = 0 } = answer;
  const { playground } = texts;
  const cached = usage?.prompt_tokens_details?.cached_tokens ?? 0;
  const cost = usage && costOf(model, { ...usage, cached_tokens: cached });
  const seconds = (totalMs - (firstMs ?? 0)) / 1000;
  return (
    <div class="stats numbers">
      {answer.stopped && <span class="warn">{playground.stopped}</span>}
      {answer.finish === 'length' && <span class="warn">{playground.cut}</span>}
      {usage && (
        <span>
          {playground.stats.tokens(
            full(usage.prompt_tokens),
            cached > 0 ? full(cached) : undefined,
            full(usage.completion_tokens),
          )}
        </span>
      )}
      {cost !== undefined && <span title={moneyExact(cost)}>{money(cost)}</span>}
      {firstMs !== undefined && <span>{playground.stats.first(duration(firstMs))}</span>}
      <span>{playground.stats.total(duration(totalMs))}</span>
      {usage && usage.completion_tokens > 1 && seconds > 0 && (
        <span>{playground.stats.speed((usage.completion_tokens / seconds).toFixed(1))}</span>
      )}
      {answer.text !== '' && <CopyButton text={answer.text} />}
    </div>
  );
}

function ToolCalls({ answer, onResults }: Pick<AnswerViewProps, 'answer' | 'onResults'>) {
  const { playground } = texts;
  const [values, setValues] = useState<Record<string, string>>({});
  return (
    <form
      class="stack-tight"
      onSubmit={(event) => {
        event.preventDefault();
        onResults?.(Object.fromEntries(answer.toolCalls.map(({ id }) => [id, values[id] ?? ''])));
      }}
    >
      {answer.toolCalls.map((call) => (
        <div key={call.id} class="attempt stack-tight">
          <div>
            <span class="small muted">{playground.toolCall(call.name)}</span>
            <pre class="tool-arguments">{call.arguments}</pre>
          </div>
          {onResults && (
            <TextField
              label={playground.toolResult}
              value={values[call.id] ?? ''}
              onValue={(value) => setValues((before) => ({ ...before, [call.id]: value }))}
            />
          )}
        </div>
      ))}
      {onResults && (
        <div>
          <Button type="submit" size="small">
            {playground.sendResults}
          </Button>
        </div>
      )}
    </form>
  );
}
