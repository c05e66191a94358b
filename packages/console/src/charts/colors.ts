const HUES = 8;

/** The CSS variable of a position in the fixed order of hues. */
export function colorVariable(hue: number): string {
  return hue < 0 ? '--series-other' : `--series-${hue % HUES}`;
}

export const colorOf = ({ hue, color }: { hue: number; color?: string | undefined }): string =>
  color ?? colorVariable(hue);

/** A canvas cannot read CSS variables, and `light-dark()` is only resolved in a used colour. */
export function resolveColor(variable: string): string {
  const probe = document.createElement('span');
  probe.style.color = `var(${variable})`;
  document.body.append(probe);
  const color = getComputedStyle(probe).color;
  probe.remove();
  return color;
}
