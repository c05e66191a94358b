import { useState } from 'preact/hooks';
import { optionsOf, Segments } from '../../components/choices.tsx';
import { CodeBlock } from '../../components/copying.tsx';
import { texts } from '../../texts/en/texts.ts';
import { LANGUAGES, type Language } from './snippets.ts';

/** Writes a request in a language. */
export type WriteCode = (language: Language) => string;

/** The same request in several languages. */
export function CodeExamples({ write }: { write: WriteCode }) {
  const [language, setLanguage] = useState<Language>('curl');
  return (
    <CodeBlock
      head={
        <Segments
          label={texts.keys.snippets}
          options={optionsOf(LANGUAGES)}
          value={language}
          onValue={(value) => setLanguage(value as Language)}
        />
      }
      code={write(language)}
    />
  );
}
