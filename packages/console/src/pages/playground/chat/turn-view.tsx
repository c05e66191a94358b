import type { Model } from '../../../api/types.ts';
import { Button } from '../../../components/button.tsx';
import { texts } from '../../../texts/en/texts.ts';
import { AnswerView } from './answer-view.tsx';
import type { Side, Turn } from './conversation.ts';

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
              named={sides.length > 1}
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
