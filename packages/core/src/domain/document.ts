/** How a model sees the text of a file: between tags, with its name. */
export interface DocumentFrame {
  tag: 'file' | 'document';
  name: string;
}

const NAME_ATTRIBUTE = { file: 'name', document: 'title' } as const;

export const framedText = ({ tag, name }: DocumentFrame, text: string): string =>
  `<${tag} ${NAME_ATTRIBUTE[tag]}=${JSON.stringify(name)}>\n${text}\n</${tag}>`;
