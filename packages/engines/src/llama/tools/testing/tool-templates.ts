/** Small chat templates that write tool calls as known families of models do. */

const chatMl = (calls: string) => `{%- if tools %}<|im_start|>system
Tools:{% for tool in tools %} {{ tool | tojson }}{% endfor %}<|im_end|>
{% endif %}{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}${calls}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`;

export const HERMES = chatMl(`{% for call in message.tool_calls or [] %}{{ '\\n' if not loop.first }}<tool_call>
{{ {'name': call.function.name, 'arguments': call.function.arguments} | tojson }}
</tool_call>{% endfor %}`);

/** A list after a mark, and JSON without spaces. */
export const GRANITE = chatMl(
  `{% if message.tool_calls %}<|tool_call|>[{% for call in message.tool_calls %}{{ ',' if not loop.first }}{"name":"{{ call.function.name }}","arguments":{{ call.function.arguments | tojson }}}{% endfor %}]{% endif %}`,
);

/** Arguments between tags that name them, values on lines of their own. Refuses a null. */
export const QWEN_CODER = chatMl(
  `{% for call in message.tool_calls or [] %}{{ '\\n' if not loop.first }}<tool_call>
<function={{ call.function.name }}>
{% for key, value in call.function.arguments | items %}<parameter={{ key }}>
{{ value | tojson if value is mapping or (value is iterable and value is not string) else value | string }}
</parameter>{{ '\\n' }}{% endfor %}</function>
</tool_call>{% endfor %}`,
);

/** Keys between tags as well, directly after the name; an empty thought before every answer. */
export const GLM = `{% if tools %}{{ tools | tojson }}{% endif %}{% for message in messages %}<|{{ message.role }}|>{% if message.role == 'assistant' %}<think></think>{% endif %}{{ message.content }}{% for call in message.tool_calls or [] %}<tool_call>{{ call.function.name }}{% for key, value in call.function.arguments | items %}<arg_key>{{ key }}</arg_key><arg_value>{{ value if value is string else value | tojson }}</arg_value>{% endfor %}</tool_call>{% endfor %}{% endfor %}{% if add_generation_prompt %}<|assistant|><think>{% endif %}`;

/** All calls between one pair of tags. */
export const MINIMAX = chatMl(
  `{% if message.tool_calls %}<m:calls>{{ '\\n' }}{% for call in message.tool_calls %}<invoke name="{{ call.function.name }}">{{ '\\n' }}{% for key, value in call.function.arguments | items %}<parameter name="{{ key }}">{{ value if value is string else value | tojson }}</parameter>{{ '\\n' }}{% endfor %}</invoke>{{ '\\n' }}{% endfor %}</m:calls>{% endif %}`,
);

/** Thoughts before everything else, arguments as the text they are, control tokens around each call. */
export const DEEPSEEK = `{{ bos_token }}{% if tools %}{{ tools | tojson }}{% endif %}{% for message in messages %}{% if message.role == 'user' %}<|User|>{{ message.content }}{% elif message.role == 'tool' %}<|output|>{{ message.content }}{% else %}<|Assistant|>{{ message.content }}{% if message.tool_calls %}<|calls_begin|>{% for call in message.tool_calls %}{{ '<|call_begin|>function<|sep|>' + call.function.name + '\\n' + call.function.arguments + '<|call_end|>' }}{% endfor %}<|calls_end|>{% endif %}</s>{% endif %}{% endfor %}{% if add_generation_prompt %}<|Assistant|><think>
{% endif %}`;

export const LLAMA_3 = `{{ bos_token }}{% for message in messages %}{% if loop.first and tools %}[system]{% for tool in tools %}{{ tool | tojson }}{% endfor %}</s>{% endif %}{% if message.tool_calls %}{% if message.tool_calls | length != 1 %}{{ raise_exception('This model takes one call at a time') }}{% endif %}[assistant]

{"name": "{{ message.tool_calls[0].function.name }}", "parameters": {{ message.tool_calls[0].function.arguments | tojson }}}</s>{% else %}[{{ 'ipython' if message.role == 'tool' else message.role }}]

{{ message.content }}</s>{% endif %}{% endfor %}{% if add_generation_prompt %}[assistant]

{% endif %}`;

const mistral = (calls: string, result: string) =>
  `{{ bos_token }}{% if tools %}[AVAILABLE_TOOLS]{{ tools | tojson }}[/AVAILABLE_TOOLS]{% endif %}{% set turn = namespace(index=0) %}{% for message in messages %}{% if message.role == 'tool' %}${result}{% elif message.tool_calls %}${calls}</s>{% else %}{% if (message.role == 'user') != (turn.index % 2 == 0) %}{{ raise_exception('Roles must alternate') }}{% endif %}{% set turn.index = turn.index + 1 %}{% if message.role == 'user' %}[INST]{{ message.content }}[/INST]{% else %}{{ message.content }}</s>{% endif %}{% endif %}{% endfor %}`;

/** One list, an id of nine characters in each call. */
export const MISTRAL_LIST = mistral(
  `[TOOL_CALLS][{% for call in message.tool_calls %}{% if call.id | length != 9 %}{{ raise_exception('Ids have nine characters') }}{% endif %}{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}, "id": "{{ call.id }}"}{{ ', ' if not loop.last }}{% endfor %}]`,
  `[TOOL_RESULTS]{"content": {{ message.content | tojson }}, "call_id": "{{ message.tool_call_id }}"}[/TOOL_RESULTS]`,
);

/** A mark before each call, the name outside the JSON. */
export const MISTRAL_MARKS = mistral(
  `{% for call in message.tool_calls %}[TOOL_CALLS]{{ call.function.name }}[CALL_ID]{{ call.id }}[ARGS]{{ call.function.arguments | tojson }}{% endfor %}`,
  `[TOOL_RESULTS]{{ message.content }}[/TOOL_RESULTS]`,
);

/** Control tokens of the models that have such templates. */
export const CONTROL_TEXTS = [
  '[/AVAILABLE_TOOLS]',
  '[AVAILABLE_TOOLS]',
  '[/TOOL_RESULTS]',
  '<|calls_begin|>',
  '[TOOL_RESULTS]',
  '<|call_begin|>',
  '<|Assistant|>',
  '<|calls_end|>',
  '<|tool_call|>',
  '[TOOL_CALLS]',
  '<|call_end|>',
  '<|im_start|>',
  '<|im_end|>',
  '<|output|>',
  '[CALL_ID]',
  '<|User|>',
  '[/INST]',
  '<|sep|>',
  '[INST]',
  '[ARGS]',
  '</s>',
  '<s>',
];

export const END_TEXTS = ['</s>', '<|im_end|>', '<|tool|>'];
