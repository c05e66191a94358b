/** A duration as Go writes it, which clients of rate-limit headers expect: `0s`, `0.12s`, `6.5s`, `1m30s`, `2h0m1s`. */
export function goDuration(ms: number): string {
  const whole = Math.max(0, Math.ceil(ms));
  const hours = Math.floor(whole / 3_600_000);
  const minutes = Math.floor(whole / 60_000) % 60;
  const seconds = `${(whole % 60_000) / 1000}s`;
  if (hours > 0) return `${hours}h${minutes}m${seconds}`;
  return minutes > 0 ? `${minutes}m${seconds}` : seconds;
}
