/** English-like passages, the same on every run. 10 to 90 words, so a batch has mixed lengths like a real one. */
const WORDS =
  `the of and to in is was for with as on that by this are from at his an were which be has had one their not it but they
  more its also two first years after who when other new about into over most between many some time may these there only
  year under up during can where people world city state school government river market morning teacher harvest bridge
  window garden winter music forest mountain village history language science children company national family system
  international university population development published performance independent temperature agriculture traditional
  neighbourhood photographer microbiology constitution electricity transformation archaeological`.split(/\s+/);

function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

export function passages(count: number, { seed = 1, fewest = 10, most = 90 } = {}): string[] {
  const next = random(seed);
  return Array.from({ length: count }, () =>
    Array.from(
      { length: fewest + Math.floor(next() * (most - fewest + 1)) },
      () => WORDS[Math.floor(next() * WORDS.length)],
    ).join(' '),
  );
}
