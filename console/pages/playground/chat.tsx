import { useEffect, useRef, useState } from 'preact/hooks';
import { streamChat } from '../../api/stream.ts';
import { queryClient } from '../../app/query.ts';
import { changeSearch, usePlace } from '../../app/router.ts';
import { sendKeys } from '../../app/shortcuts.tsx';
import { Button } from '../../components/controls.tsx';
import { texts } from '../../texts/en.ts';
import { snippet } from '../snippets.ts';
import { AnswerView } from './answer-view.tsx';
import { ChatSettingsPanel } from './chat-settings.tsx';
import {
  type Answer,
  initialSettings,
  lastAsked,
  requestBody,
  type Side,
  settingsError,
  type Turn,
} from './conversation.ts';
import { useDraft } from './drafts.ts';
import type { PartProps } from './parts.tsx';

export function Chat({ models, model, onCode }: PartProps) {
  const { search } = usePlace();
  const { playground } = texts;
  const second = models.find(({ id }) => id === search.get('with'));
  const [settings, changeSettings] = useDraft('chat-settings', initialSettings);
  const [draft, changeDraft] = useDraft('chat', { message: '', turns: [] as Turn[] });
  const [running, setRunning] = useState(0);
  const controller = useRef<AbortController>(undefined);
  const end = useRef<HTMLDivElement>(null);
  const settingsPanel = useRef<HTMLDivElement>(null);
  const turns = draft.turns;
  const problems = settingsError(settings);
  const sides: Side[] = second ? ['a', 'b'] : ['a'];
  const modelOf = (side: Side) => (side === 'b' && second ? second : model);
  useEffect(() => () => controller.current?.abort(), []);
  useEffect(() => end.current?.scrollIntoView({ block: 'nearest' }), [turns.length]);

  // Two streams change the same list: each works on the newest one.
  const latest = useRef(turns);
  latest.current = turns;
  const setTurns = (next: Turn[]) => {
    latest.current = next;
    changeDraft({ turns: next });
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
      await streamChat(requestBody(id, latest.current, side, settings), signal, (change) => {
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

  const start = async (turn: Turn, of: Side[]) => {
    setTurns([...latest.current, turn]);
    const own = new AbortController();
    controller.current = own;
    setRunning(of.length);
    await Promise.all(of.map((side) => stream(turn.id, side, own.signal)));
    setRunning(0);
    // The request may have loaded the model.
    void queryClient.invalidateQueries({ queryKey: ['models'] });
  };
  const nextId = () => (latest.current.at(-1)?.id ?? 0) + 1;
  const ready = draft.message.trim() !== '' && running === 0 && Object.keys(problems).length === 0;
  const send = () => {
    if (!ready) return;
    changeDraft({ message: '' });
    void start({ id: nextId(), text: draft.message.trim(), answers: {} }, sides);
  };
  const sendResults = (side: Side, values: Record<string, string>) =>
    void start({ id: nextId(), results: { side, values }, answers: {} }, [side]);
  const showCode = () => {
    const text = draft.message.trim();
    const shown = text === '' ? lastAsked(turns) : [...turns, { id: nextId(), text, answers: {} }];
    onCode((language) => {
      const write = (side: Side) =>
        snippet(language, {
          origin: location.origin,
          path: '/v1/chat/completions',
          body: requestBody(modelOf(side).id, shown, side, settings),
        });
      return sides.map(write).join('\n\n');
    });
  };

  return (
    <div class="play">
      <div class="chat">
        <div class="chat-models">
          <Button
            tone="quiet"
            size="small"
            icon="models"
            onClick={() => settingsPanel.current?.scrollIntoView({ block: 'start' })}
          >
            {sides.map((side) => modelOf(side).id).join(', ')}
          </Button>
        </div>
        <div class="chat-turns">
          {turns.length === 0 && (
            <div class="chat-empty">
              <h2>{playground.emptyTitle}</h2>
              <p class="muted">{playground.emptyText}</p>
              <div class="row row-wrap chat-examples">
                {playground.examples.map((example) => (
                  <Button key={example} size="small" onClick={() => changeDraft({ message: example })}>
                    {example}
                  </Button>
                ))}
              </div>
            </div>
          )}
          {turns.map((turn, index) => (
            <div key={turn.id} class="chat-turn">
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
              <div class={second ? 'chat-sides' : undefined}>
                {sides.map((side) => {
                  const answer = turn.answers[side];
                  return answer ? (
                    <AnswerView
                      key={side}
                      answer={answer}
                      model={models.find(({ id }) => id === answer.model)}
                      named={second !== undefined}
                      {...(index === turns.length - 1 && running === 0
                        ? { onResults: (values: Record<string, string>) => sendResults(side, values) }
                        : {})}
                    />
                  ) : (
                    <div key={side} />
                  );
                })}
              </div>
            </div>
          ))}
          <div ref={end} />
        </div>
        <form
          class="composer"
          onSubmit={(event) => {
            event.preventDefault();
            send();
          }}
        >
          <textarea
            class="textarea"
            dir="auto"
            rows={3}
            aria-label={playground.message}
            placeholder={`${playground.messagePlaceholder} (${sendKeys()})`}
            value={draft.message}
            onInput={(event) => changeDraft({ message: event.currentTarget.value })}
            onKeyDown={(event) => {
              if (event.key === 'Enter' && (event.metaKey || event.ctrlKey)) send();
            }}
          />
          <div class="spread">
            <div class="row">
              <Button tone="quiet" disabled={turns.length === 0 || running > 0} onClick={() => setTurns([])}>
                {playground.clear}
              </Button>
              <Button tone="quiet" disabled={Object.keys(problems).length > 0} onClick={showCode}>
                {playground.code}
              </Button>
            </div>
            {running > 0 ? (
              <Button icon="stop" onClick={() => controller.current?.abort()}>
                {playground.stop}
              </Button>
            ) : (
              <Button type="submit" tone="primary" icon="send" disabled={!ready}>
                {playground.send}
              </Button>
            )}
          </div>
        </form>
      </div>
      <div ref={settingsPanel} class="chat-settings">
        <ChatSettingsPanel
          models={models}
          model={model}
          second={second}
          settings={settings}
          problems={problems}
          onChange={changeSettings}
          onModel={(id) => changeSearch({ model: id })}
          onSecond={(id) => changeSearch({ with: id })}
        />
      </div>
    </div>
  );
}
