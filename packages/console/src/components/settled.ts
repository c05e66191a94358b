import { useEffect, useState } from 'preact/hooks';

const TYPING_MS = 300;

/** What was typed, a moment after the last letter. */
export function useSettled(text: string): string {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), TYPING_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return settled;
}
