/** How many of a number of places one account may hold: it leaves a quarter to others, but may use a single one. */
export const maxPerAccount = (places: number): number => places - Math.ceil((places - 1) / 4);
