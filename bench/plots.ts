/**
 * Draws the plots of docs/performance.md and the README from bench/results.json: `node bench/plots.ts`.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

interface Bar {
  label: string;
  value: number;
  /** 0 is Baobab, drawn strong; others are pale. */
  series?: number;
  goal?: number;
}

interface Plot {
  title: string;
  note: string;
  rows: Bar[];
}

/** Each is one picture. */
type Results = Record<'ratios' | 'gateways', readonly Plot[]>;

export const PLOTS = join(import.meta.dirname, '../docs/plots');
export const readResults = (): Results =>
  JSON.parse(readFileSync(join(import.meta.dirname, 'results.json'), 'utf8')) as Results;

const WIDTH = 760;
const LABELS = 290;
const LONGEST_BAR = 390;
const BAR = 16;
const STEP = 26;
/** Title and note. */
const HEAD = 58;

// Colours that are readable on a white and on a dark page; the text follows the reader's theme.
const STYLE = `
    text { font: 13px system-ui, sans-serif; fill: #24292f }
    .title { font-size: 15px; font-weight: 600 }
    .note { fill: #57606a }
    .s0 { fill: #2f9e6e }
    .s1 { fill: #8c959f }
    .mark { stroke: #bc4c00; stroke-width: 2 }
    @media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .note { fill: #9198a1 } .s1 { fill: #6e7681 } .mark { stroke: #ffa657 } }`;

const escaped = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
const number = (value: number) => (value >= 100 ? value.toLocaleString('en').replace(',', ' ') : String(value));

/** The lines of one plot, whose bars have a scale of their own. */
function panel({ title, note, rows }: Plot, top: number): string[] {
  const scale = LONGEST_BAR / Math.max(...rows.map(({ value }) => value));
  const bars = rows.flatMap(({ label, value, series = 0, goal }, index) => {
    const y = top + HEAD + index * STEP;
    const end = LABELS + value * scale;
    const goalX = goal === undefined ? undefined : (LABELS + goal * scale).toFixed(1);
    return [
      `<text x="${LABELS - 10}" y="${y + 13}" text-anchor="end">${escaped(label)}</text>`,
      `<rect class="s${series}" x="${LABELS}" y="${y}" width="${(value * scale).toFixed(1)}" height="${BAR}" rx="2"/>`,
      ...(goalX === undefined
        ? []
        : [`<line class="mark" x1="${goalX}" x2="${goalX}" y1="${y - 3}" y2="${y + BAR + 3}"/>`]),
      `<text x="${(end + 8).toFixed(1)}" y="${y + 13}">${number(value)}</text>`,
    ];
  });
  return [
    `<text class="title" x="12" y="${top + 22}">${escaped(title)}</text>`,
    `<text class="note" x="12" y="${top + 42}">${escaped(note)}</text>`,
    ...bars,
  ];
}

/** Plots below each other. */
function draw(plots: readonly Plot[]): string {
  const lines: string[] = [];
  let height = 0;
  for (const plot of plots) {
    lines.push(...panel(plot, height));
    height += HEAD + plot.rows.length * STEP + 8;
  }
  const name = plots.map(({ title }) => escaped(title)).join('; ');
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${name}">
  <style>${STYLE}
  </style>
  ${lines.join('\n  ')}
</svg>
`;
}

/** The plots by file name. */
export const drawPlots = ({ ratios, gateways }: Results): Record<string, string> => ({
  'ratios.svg': draw(ratios),
  'gateways.svg': draw(gateways),
});

if (import.meta.main) {
  mkdirSync(PLOTS, { recursive: true });
  for (const [name, svg] of Object.entries(drawPlots(readResults()))) writeFileSync(join(PLOTS, name), svg);
}
