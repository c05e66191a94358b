/** The label of a value that the server sent; the value itself if a newer server knows more of them. */
export const labelOf = (labels: Readonly<Record<string, string>>, value: string): string => labels[value] ?? value;
