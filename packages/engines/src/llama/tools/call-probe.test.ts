import { Template } from '@huggingface/jinja';
import { describe, expect, it } from 'vitest';
import { learnToolSupport } from './call-probe.ts';
import { CALL_ID, GENERIC_SYNTAX } from './call-syntax.ts';
import {
  CONTROL_TEXTS,
  DEEPSEEK,
  END_TEXTS,
  GLM,
  GRANITE,
  HERMES,
  LLAMA_3,
  MINIMAX,
  MISTRAL_LIST,
  MISTRAL_MARKS,
  QWEN_CODER,
} from './testing/tool-templates.ts';

function learn(source: string) {
  const template = new Template(source);
  return learnToolSupport({
    render(messages, tools) {
      try {
        return template.render({
          messages,
          tools,
          add_generation_prompt: true,
          bos_token: '<s>',
          eos_token: '</s>',
        });
      } catch {
        return undefined;
      }
    },
    controlTexts: CONTROL_TEXTS,
    endTexts: END_TEXTS,
  });
}

const USUAL = { argumentsAsText: false, singleCalls: false, withoutCalls: '' };

describe('learnToolSupport', () => {
  it('learns calls between tags', () => {
    expect(learn(HERMES)).toEqual({ ...USUAL, syntax: GENERIC_SYNTAX });
  });

  it('learns a list after a control token, with the spacing of the template', () => {
    expect(learn(GRANITE)).toEqual({
      ...USUAL,
      syntax: {
        mark: '<|tool_call|>',
        open: '<|tool_call|>[{"name":"',
        arguments: { kind: 'json', nameEnd: '"', middle: ',"arguments":' },
        close: '}',
        next: { choice: ',', rest: '{"name":"' },
        end: ']',
      },
    });
  });

  it('learns bare JSON, one call in a message', () => {
    expect(learn(LLAMA_3)).toEqual({
      ...USUAL,
      singleCalls: true,
      syntax: {
        mark: undefined,
        open: '{"name": "',
        arguments: { kind: 'json', nameEnd: '"', middle: ', "parameters": ' },
        close: '}',
        next: undefined,
        end: '',
      },
    });
  });

  it('learns where the id is', () => {
    expect(learn(MISTRAL_LIST)?.syntax).toEqual({
      mark: '[TOOL_CALLS]',
      open: '[TOOL_CALLS][{"name": "',
      arguments: { kind: 'json', nameEnd: '"', middle: ', "arguments": ' },
      close: `, "id": "${CALL_ID}"}`,
      next: { choice: ',', rest: ' {"name": "' },
      end: ']',
    });
    expect(learn(MISTRAL_MARKS)?.syntax).toEqual({
      mark: '[TOOL_CALLS]',
      open: '[TOOL_CALLS]',
      arguments: { kind: 'json', nameEnd: '[CALL_ID]', middle: `${CALL_ID}[ARGS]` },
      close: '',
      next: { choice: '[TOOL_CALLS]', rest: '' },
      end: '',
    });
  });

  it('learns that arguments are printed unchanged, and that a call has no thought before it', () => {
    expect(learn(DEEPSEEK)).toEqual({
      argumentsAsText: true,
      singleCalls: false,
      withoutCalls: '<think>\n',
      syntax: {
        mark: '<|calls_begin|>',
        open: '<|calls_begin|><|call_begin|>function<|sep|>',
        arguments: { kind: 'json', nameEnd: '\n', middle: '' },
        close: '<|call_end|>',
        next: { choice: '<|call_begin|>', rest: 'function<|sep|>' },
        end: '<|calls_end|>',
      },
    });
  });

  it('takes ordinary words for a beginning, not for a mark', () => {
    expect(learn(HERMES.replaceAll('<tool_call>', 'Action'))?.syntax).toMatchObject({
      mark: undefined,
      open: 'Action\n{"name": "',
    });
  });

  it('allows one call where calls are numbered', () => {
    const numbered = HERMES.replace("{'name'", "{'number': loop.index, 'name'");
    expect(learn(numbered)).toMatchObject({
      singleCalls: false,
      syntax: { open: '<tool_call>\n{"number": 1, "name": "', next: undefined },
    });
  });

  it('learns arguments between tags', () => {
    expect(learn(QWEN_CODER)).toEqual({
      ...USUAL,
      syntax: {
        mark: '<tool_call>',
        open: '<tool_call>\n<function=',
        arguments: {
          kind: 'tagged',
          lead: '>\n',
          beforeKey: '<parameter=',
          beforeValue: '>\n',
          valueMargin: '\n',
          valueEnd: '</parameter>',
          afterValue: '\n',
          end: '</function>',
        },
        close: '\n</tool_call>',
        next: { choice: '\n', rest: '<tool_call>\n<function=' },
        end: '',
      },
    });
  });

  it('learns tags directly after the name, after a thought that plain answers also have', () => {
    expect(learn(GLM)).toEqual({
      ...USUAL,
      syntax: {
        mark: '<tool_call>',
        open: '</think><tool_call>',
        arguments: {
          kind: 'tagged',
          lead: '',
          beforeKey: '<arg_key>',
          beforeValue: '</arg_key><arg_value>',
          valueMargin: '',
          valueEnd: '</arg_value>',
          afterValue: '',
          end: '</tool_call>',
        },
        close: '',
        next: { choice: '<tool_call>', rest: '' },
        end: '',
      },
    });
  });

  it('learns where a list of tagged calls ends, by whole tags', () => {
    expect(learn(MINIMAX)?.syntax).toMatchObject({
      mark: '<m:calls>',
      open: '<m:calls>\n<invoke name="',
      arguments: { lead: '">\n', beforeKey: '<parameter name="', beforeValue: '">', end: '</invoke>' },
      close: '\n',
      next: { choice: '<invoke name="', rest: '' },
      end: '</m:calls>',
    });
  });

  it.each([
    [
      'strings in quotes between tags',
      MINIMAX.replace('value if value is string else value | tojson', 'value | tojson'),
    ],
    [
      'values that are no JSON',
      MINIMAX.replace('value if value is string', "'True' if value is boolean else value if value is string"),
    ],
    ['tags that tell the type of a value', GLM.replace('<arg_value>', '<arg_value string={{ value is string }}>')],
    ['tags that repeat the key', GLM.replace('</arg_value>', '</{{ key }}>')],
    ['values that no tag ends', GLM.replace('</arg_value>', ';')],
    [
      'another form for calls without arguments',
      GLM.replace('{% for key,', "{{ '(none)' if call.function.arguments | length == 0 }}{% for key,"),
    ],
    ['a template without tools', '{% for message in messages %}{{ message.content }}{% endfor %}'],
    ['definitions that are not shown', HERMES.replace('{% for tool in tools %} {{ tool | tojson }}{% endfor %}', '')],
    [
      'results that are not shown',
      HERMES.replace('{{ message.content }}', "{% if message.role != 'tool' %}{{ message.content }}{% endif %}"),
    ],
    [
      'the name after the arguments',
      HERMES.replace(
        "'name': call.function.name, 'arguments': call.function.arguments",
        "'arguments': call.function.arguments, 'name': call.function.name",
      ),
    ],
    [
      'a mark that plain answers have too',
      HERMES.replace(
        '{{ message.content }}',
        "{% if message.role == 'assistant' %}<tool_call>{% endif %}{{ message.content }}",
      ).replace("{{ '\\n' if not loop.first }}<tool_call>", ''),
    ],
    [
      'calls that begin with the end of a turn',
      HERMES.replace("{{ '\\n' if not loop.first }}<tool_call>", '<|im_end|>call'),
    ],
  ])('learns nothing from %s', (_, source) => {
    expect(learn(source)).toBeUndefined();
  });
});
