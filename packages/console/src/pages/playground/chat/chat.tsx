import type { RefObject } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { changeSearch, usePlace } from '../../../address/router.ts';
import { useWorkAccount } from '../../../api/session.ts';
import { Button } from '../../../components/button.tsx';
import { hasKeyboard, isSendKey, sendKeys } from '../../../components/keyboard.ts';
import { texts } from '../../../texts/en/texts.ts';
import { snippet } from '../../first-request/snippets.ts';
import { useDraft } from '../drafts.ts';
import type { PartProps } from '../parts.tsx';
import { ChatSettingsPanel } from './chat-settings.tsx';
import { initialSettings, lastAsked, requestBody, type Side, settingsError, type Turn } from './conversation.ts';
import { nextId, useStreamedTurns } from './streamed-turns.ts';
import { Examples, TurnView } from './turn-view.tsx';

export function Chat({ models, model, onCode }: PartProps) {
  const { search } = usePlace();
  const second = models.find(({ id }) => id === search.get('with'));
  const [settings, changeSettings] = useDraft('chat-settings', initialSettings);
  const [draft, changeDraft] = useDraft('chat', { message: '', turns: [] as Turn[], enterSends: false });
  const end = useRef<HTMLDivElement>(null);
  const input = useRef<HTMLTextAreaElement>(null);
  const settingsPanel = useRef<HTMLDivElement>(null);
  const { turns } = draft;
  const text = draft.message.trim();
  const { query } = useWorkAccount();
  const problems = settingsError(settings);
  const hasProblems = Object.keys(problems).length > 0;
  const sides: Side[] = second ? ['a', 'b'] : ['a'];
  const modelOf = (side: Side) => (side === 'b' && second ? second : model);
  const setTurns = (next: Turn[]) => changeDraft({ turns: next });
  const { running, add, stop } = useStreamedTurns({ turns, onTurns: setTurns, modelOf, settings });
  useEffect(() => end.current?.scrollIntoView({ block: 'nearest' }), [turns.length]);

  const ready = text !== '' && !running && !hasProblems;
  const send = () => {
    if (!ready) return;
    changeDraft({ message: '' });
    add({ text }, sides);
  };
  const takeExample = (message: string) => {
    changeDraft({ message });
    // It can be sent or changed with the keyboard at once.
    input.current?.focus();
  };
  const sendResults = (side: Side, values: Record<string, string>) => add({ results: { side, values } }, [side]);
  const showCode = () => {
    const shown = text === '' ? lastAsked(turns) : [...turns, { id: nextId(turns), text, answers: {} }];
    onCode((language) => {
      const write = (side: Side) =>
        snippet(language, {
          origin: location.origin,
          path: '/v1/chat/completions',
          query,
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
          {turns.length === 0 && <Examples onExample={takeExample} />}
          {turns.map((turn, index) => (
            <TurnView
              key={turn.id}
              turn={turn}
              sides={sides}
              models={models}
              onResults={index === turns.length - 1 && !running ? sendResults : undefined}
            />
          ))}
          <div ref={end} />
        </div>
        <Composer
          input={input}
          message={draft.message}
          onMessage={(message) => changeDraft({ message })}
          enterSends={draft.enterSends}
          onEnterSends={(enterSends) => changeDraft({ enterSends })}
          ready={ready}
          running={running}
          clearDisabled={turns.length === 0}
          codeDisabled={hasProblems}
          onSend={send}
          onStop={stop}
          onClear={() => setTurns([])}
          onCode={showCode}
        />
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

interface ComposerProps {
  input: RefObject<HTMLTextAreaElement | null>;
  message: string;
  onMessage: (message: string) => void;
  /** By itself; with Ctrl or ⌘ it always does. */
  enterSends: boolean;
  onEnterSends: (enterSends: boolean) => void;
  /** Whether the message can be sent. */
  ready: boolean;
  running: boolean;
  clearDisabled: boolean;
  codeDisabled: boolean;
  onSend: () => void;
  onStop: () => void;
  onClear: () => void;
  onCode: () => void;
}

function Composer(props: ComposerProps) {
  const { input, message, onMessage, enterSends, onEnterSends, ready, running, clearDisabled, codeDisabled } = props;
  const { onSend, onStop, onClear, onCode } = props;
  const { playground } = texts;
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        onSend();
      }}
    >
      <textarea
        ref={input}
        class="textarea"
        dir="auto"
        rows={3}
        aria-label={playground.message}
        placeholder={playground.messagePlaceholder + (hasKeyboard() ? ` (${enterSends ? '↵' : sendKeys()})` : '')}
        value={message}
        onInput={(event) => onMessage(event.currentTarget.value)}
        onKeyDown={(event) => {
          const isEnter = event.key === 'Enter' && !event.isComposing && !event.shiftKey;
          if (!isSendKey(event) && !(enterSends && isEnter)) return;
          event.preventDefault();
          onSend();
        }}
      />
      <div class="spread">
        <div class="row row-wrap">
          <Button tone="quiet" disabled={clearDisabled || running} onClick={onClear}>
            {playground.clear}
          </Button>
          <Button tone="quiet" disabled={codeDisabled} onClick={onCode}>
            {playground.code}
          </Button>
          {hasKeyboard() && (
            <label class="check small muted">
              <input
                type="checkbox"
                checked={enterSends}
                onChange={(event) => onEnterSends(event.currentTarget.checked)}
              />
              {playground.enterSends}
            </label>
          )}
        </div>
        {running ? (
          <Button icon="stop" onClick={onStop}>
            {playground.stop}
          </Button>
        ) : (
          <Button type="submit" tone="primary" icon="send" disabled={!ready}>
            {playground.send}
          </Button>
        )}
      </div>
    </form>
  );
}
