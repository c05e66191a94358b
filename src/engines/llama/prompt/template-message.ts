/** Messages and tools under the names that chat templates know. */
export interface TemplateMessage {
  role: string;
  content: string;
  name?: string;
  tool_call_id?: string;
  tool_calls?: readonly TemplateCall[];
}

export interface TemplateCall {
  id: string;
  type: 'function';
  function: { name: string; arguments: unknown };
}

export interface TemplateTool {
  type: 'function';
  function: { name: string; description: string; parameters: Record<string, unknown> };
}
