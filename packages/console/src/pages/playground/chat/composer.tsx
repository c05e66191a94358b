import { Button } from '../../../components/button.tsx';
import { hasKeyboard, sendKeys } from '../../../components/keyboard.ts';
import { texts } from '../../../texts/en/texts.ts';

export interface ComposerProps {
  message: string;
  onMessage: (message: string) => void;
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

export function Composer(props: ComposerProps) {
  const { message, onMessage, ready, running, clearDisabled, codeDisabled, onSend, onStop, onClear, onCode } = props;
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
        class="textarea"
        dir="auto"
        rows={3}
        aria-label={playground.message}
        placeholder={playground.messagePlaceholder + (hasKeyboard() ? ` (${sendKeys()})` : '')}
        value={message}
        onInput={(event) => onMessage(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === 'Enter' && (event.metaKey || event.ctrlKey)) onSend();
        }}
      />
      <div class="spread">
        <div class="row">
          <Button tone="quiet" disabled={clearDisabled || running} onClick={onClear}>
            {playground.clear}
          </Button>
          <Button tone="quiet" disabled={codeDisabled} onClick={onCode}>
            {playground.code}
          </Button>
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
