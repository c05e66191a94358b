/**
 * Vocabulary entries as a tree of characters in flat arrays: the longest entry at a place of a text is found in one walk, without
 * making a string, so no cache of words is needed and no input is slow.
 */
export interface Trie {
  /** Id of the longest entry at `from`, or -1. Sets `matchEnd` to its end. */
  longest(root: number, text: string, from: number, to: number): number;
  readonly matchEnd: number;
}

export interface TrieEntry {
  /** Entries of different roots are separate. */
  root: number;
  text: string;
  id: number;
}

const NO_ID = -1;
/** Roots have the lowest numbers and no parent. */
const NO_CHILD = 0;

/** With `ignoreCase` the capital ASCII letters of a text are read as small ones. */
export function createTrie(entries: readonly TrieEntry[], roots: number, ignoreCase: boolean): Trie {
  const { letters, size: alphabet } = numberLetters(entries);
  const mostNodes = entries.reduce((total, { text }) => total + text.length, roots);
  if (mostNodes * alphabet > 2 ** 32) throw new Error('the vocabulary is too large for its index');
  const ids = new Int32Array(mostNodes).fill(NO_ID);
  let edges = createEdges(1 << 16);
  let nodes = roots;

  const addChild = (node: number, letter: number) => {
    // At most half full, so that a search ends soon.
    if (nodes * 2 > edges.slots) edges = edges.doubled();
    edges.add((node * alphabet + letter) | 0, nodes);
    return nodes++;
  };
  for (const { root, text, id } of entries) {
    let node = root;
    for (let i = 0; i < text.length; i++) {
      const letter = letters[text.charCodeAt(i)] as number;
      node = edges.child((node * alphabet + letter) | 0) || addChild(node, letter);
    }
    ids[node] = id;
  }
  // Only now: entries with capitals exist, but a text that is read without case never reaches them.
  if (ignoreCase) for (let code = 65; code <= 90; code++) letters[code] = letters[code + 32] as number;
  const { child } = edges;
  let matchEnd = 0;

  return {
    get matchEnd() {
      return matchEnd;
    },
    longest(root, text, from, to) {
      let node = root;
      let best = NO_ID;
      for (let i = from; i < to; i++) {
        const letter = letters[text.charCodeAt(i)] as number;
        if (letter === 0) break;
        node = child((node * alphabet + letter) | 0);
        if (node === NO_CHILD) break;
        const id = ids[node] as number;
        if (id !== NO_ID) {
          best = id;
          matchEnd = i + 1;
        }
      }
      return best;
    },
  };
}

/** Small numbers for the characters that occur, so that a node and a letter fit into one key; 0 for all others. */
function numberLetters(entries: readonly TrieEntry[]) {
  const letters = new Uint16Array(0x10000);
  let size = 1;
  for (const { text } of entries) {
    for (let i = 0; i < text.length; i++) if (letters[text.charCodeAt(i)] === 0) letters[text.charCodeAt(i)] = size++;
  }
  return { letters, size };
}

/** A hash table of key → child. Key and child are next to each other, so one step of a search reads one cache line. */
function createEdges(slots: number) {
  const table = new Int32Array(slots * 2);
  const mask = slots - 1;
  // The high bits of the product are the well mixed ones.
  const shift = Math.clz32(mask);
  const placeOf = (key: number) => {
    let slot = Math.imul(key, 0x9e3779b1) >>> shift;
    while (table[slot * 2 + 1] !== NO_CHILD && table[slot * 2] !== key) slot = (slot + 1) & mask;
    return slot * 2;
  };
  const add = (key: number, child: number) => {
    const place = placeOf(key);
    table[place] = key;
    table[place + 1] = child;
  };
  return {
    slots,
    add,
    child: (key: number) => table[placeOf(key) + 1] as number,
    doubled() {
      const larger = createEdges(slots * 2);
      for (let i = 0; i < table.length; i += 2) {
        if (table[i + 1] !== NO_CHILD) larger.add(table[i] as number, table[i + 1] as number);
      }
      return larger;
    },
  };
}
