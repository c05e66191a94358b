import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { texts } from '../texts/en/texts.ts';
import { Button } from './button.tsx';

export function CopyButton({ text, label = texts.common.copy }: { text: string; label?: string }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return (
    <Button
      tone="quiet"
      size="small"
      icon={copied ? 'check' : 'copy'}
      label={copied ? texts.common.copied : label}
      onClick={(event) => {
        event.stopPropagation();
        void copy();
      }}
    />
  );
}

/** An id in monospace with its copy button. */
export function Copyable({ text }: { text: string }) {
  return (
    <span class="copyable">
      <span class="mono truncate">{text}</span>
      <CopyButton text={text} />
    </span>
  );
}

export function CodeBlock({ code, head }: { code: string; head?: ComponentChildren }) {
  return (
    <div class="code-block">
      <div class="code-head">
        <div>{head}</div>
        <CopyButton text={code} />
      </div>
      {/* A scrollable region must be reachable with the keyboard. */}
      <pre dir="auto" {...{ tabIndex: 0 }}>
        {code}
      </pre>
    </div>
  );
}
