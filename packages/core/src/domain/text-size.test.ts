import { describe, expect, it } from 'vitest';
import { mostRankTokens, mostTokens, reservedTokens, tokenQuarters } from './text-size.ts';

describe('the estimate of tokens', () => {
  it('is a quarter of the characters of English text and of code', () => {
    expect(reservedTokens('All human beings are born free and equal.')).toBe(11);
    expect(reservedTokens('')).toBe(0);
    expect(tokenQuarters('const a = { b: [1, 2] };')).toBe(24);
  });

  // Counted with SmolLM2, which knows few characters of these scripts.
  it.each([
    ['Amharic', 'የሰው ልጅ ሁሉ ሲወለድ ነጻና በክብርና በመብትም እኩልነት ያለው ነው።', 2.45],
    ['Tifinagh', 'ⵉⵎⴷⴰⵏⵏ, ⴰⴽⴽⵏ ⵎⴰ ⵍⵍⴰⵏ ⵜⵜⵍⴰⵍⵏ ⴷ ⵉⵍⴻⵍⵍⵉⵢⵏ ⵎⵙⴰⵡⴰⵏ', 2.47],
    ['Burmese', 'လူတိုင်းသည် တူညီ လွတ်လပ်သော ဂုဏ်သိက္ခာဖြင့် လည်းကောင်း', 2.79],
    ['rare Chinese', '㐀㐁㐂㐃㐄㐅㐆㐇㐈㐉㐊㐋㐌㐍㐎㐏', 3],
    ['Chinese', '人人生而自由,在尊严和权利上一律平等。', 1.72],
    ['Hindi', 'सभी मनुष्यों को गौरव और अधिकारों के मामले में', 1.07],
    ['Russian', 'Все люди рождаются свободными и равными', 0.72],
    ['Yoruba', 'Gbogbo ènìyàn ni a bí ní òmìnira; iyì àti ẹ̀tọ́ kọ̀ọ̀kan sì dọ́gba.', 0.92],
    ['emoji', '😀😃😄😁😆😅😂🤣😊😇', 1.48],
  ])('of %s is near what a small vocabulary needs', (_name, text, tokensPerCharacter) => {
    const needed = text.length * tokensPerCharacter;
    expect(reservedTokens(text)).toBeGreaterThan(0.8 * needed);
    expect(reservedTokens(text)).toBeLessThan(2 * needed);
  });

  it('has a weight for every character', () => {
    for (let code = 0; code <= 0xffff; code += 1) expect(tokenQuarters(String.fromCharCode(code))).toBeGreaterThan(0);
  });
});

describe('the most tokens', () => {
  it('of a text are its bytes, and never fewer', () => {
    for (const text of ['', 'word', '12 + 34', 'жизнь', '人人生而自由', '😀', '\ud83d', 'ﷺ']) {
      expect(mostTokens(text)).toBeGreaterThanOrEqual(new TextEncoder().encode(text).length);
    }
    expect([mostTokens('word'), mostTokens('жизнь'), mostTokens('人')]).toEqual([4, 10, 3]);
    // Spelled out, it is "peace be upon him" in Arabic.
    expect(mostTokens('ﷺ')).toBe('ﷺ'.normalize('NFKC').length);
  });

  it('of a ranking hold every window with the query, at any share of the context', () => {
    const context = 512;
    for (const queryTokens of [0, 10, 100, 200, 300, 380]) {
      for (const documentTokens of [1, 130, 131, 500, 513, 4_000]) {
        // As a cross-encoder does it, with four special tokens.
        const size = context - 4 - queryTokens;
        const step = size - (size >> 2);
        let read = 0;
        for (let start = 0; ; start += step) {
          read += 4 + queryTokens + Math.min(size, documentTokens - start);
          if (start + size >= documentTokens) break;
        }
        const most = mostRankTokens(
          { query: 'q'.repeat(queryTokens), documents: ['d'.repeat(documentTokens)] },
          context,
        );
        expect(most).toBeGreaterThanOrEqual(read);
      }
    }
  });

  it('of a ranking that is cut hold each pair, and no more than the limit', () => {
    const request = { query: 'q'.repeat(100), documents: ['d'.repeat(10), 'd'.repeat(4_000)] };
    const most = (more: object) => mostRankTokens({ ...request, ...more }, 512);
    expect(most({ truncation: { maxTokens: 40 } })).toBe(100 + 40 + 40);
    expect(most({ truncation: { maxTokens: 9_999 } })).toBe(100 + 118 + 512);
    expect(most({ maxDocumentTokens: 20 })).toBe(100 + 118 + 128);
    expect(most({ truncation: {} })).toBe(most({}));
  });
});
