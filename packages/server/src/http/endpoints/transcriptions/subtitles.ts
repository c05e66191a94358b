/** Subtitles in the SubRip and WebVTT formats. */

/** Seconds to hundredths. Models tell times in steps of 0.02 s; what the offset of a window adds behind that means nothing. */
export const hundredths = (seconds: number): number => Math.round(seconds * 100);

export interface Cue {
  startSeconds: number;
  endSeconds: number;
  text: string;
}

/** SubRip: numbered cues, a comma before the milliseconds, a blank line after each. */
export function toSrt(cues: readonly Cue[]): string {
  return cues
    .map(
      (cue, index) =>
        `${index + 1}\n${timecode(cue.startSeconds, ',')} --> ${timecode(cue.endSeconds, ',')}\n${oneParagraph(cue.text)}\n\n`,
    )
    .join('');
}

/** WebVTT: a header, a dot before the milliseconds, and escaped markup. */
export function toVtt(cues: readonly Cue[]): string {
  const body = cues.map(
    (cue) =>
      `${timecode(cue.startSeconds, '.')} --> ${timecode(cue.endSeconds, '.')}\n${escapeVtt(oneParagraph(cue.text))}\n\n`,
  );
  return `WEBVTT\n\n${body.join('')}`;
}

function timecode(seconds: number, separator: ',' | '.'): string {
  const milliseconds = Math.max(0, hundredths(seconds) * 10);
  const pad = (value: number, width = 2) => String(Math.floor(value)).padStart(width, '0');
  const clock = [milliseconds / 3_600_000, (milliseconds / 60_000) % 60, (milliseconds / 1000) % 60].map((value) =>
    pad(value),
  );
  return `${clock.join(':')}${separator}${pad(milliseconds % 1000, 3)}`;
}

/** A blank line would end the cue. */
const oneParagraph = (text: string) => text.trim().replace(/\s*[\r\n]+\s*/g, '\n');

/** Also escapes `-->`, which would begin a new cue. */
const escapeVtt = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
