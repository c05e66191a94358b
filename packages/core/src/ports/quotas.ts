/** How much an account may store of one kind; 0: no limit. */
export interface Quota {
  items: number;
  bytes: number;
}

export interface StoredAmount {
  items: number;
  bytes: number;
}
